//===- Files.cpp - the few file operations of a package -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/files/Files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace anabranch::package {

Descriptor::~Descriptor() {
  if (fd >= 0)
    ::close(fd);
}

Status ioError(const std::string &what) {
  int code = errno;
  return Status(code == ENOMEM ? StatusCode::OutOfMemory : StatusCode::IoError,
                what + ": " + std::strerror(code));
}

Expected<Descriptor> openFolder(const std::string &path, Trust trust) {
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid())
    return ioError("cannot open package " + path);
  if (Status s = checkTrusted(folder.get(), path, S_IFDIR, trust); !s.ok())
    return s;
  return folder;
}

/// Opens a folder or a file in a folder; `kind` is S_IFDIR or S_IFREG.
static Expected<Descriptor> openIn(const Descriptor &folder,
                                   const std::string &name, int flags,
                                   mode_t kind, Trust trust) {
  if (trust == Trust::User)
    flags |= O_NOFOLLOW;
  Descriptor found(
      ::openat(folder.get(), name.c_str(), flags | O_RDONLY | O_CLOEXEC));
  if (!found.valid()) {
    Status failed = ioError("cannot open " + name + " of the package");
    struct stat info;
    bool isLink = ::fstatat(folder.get(), name.c_str(), &info,
                            AT_SYMLINK_NOFOLLOW) == 0 &&
                  S_ISLNK(info.st_mode);
    return trust == Trust::User && isLink ? refuseLink(name)
                                          : std::move(failed);
  }
  if (Status s = checkTrusted(found.get(), name, kind, trust); !s.ok())
    return s;
  return found;
}

Expected<Descriptor> openFolder(const Descriptor &folder,
                                const std::string &name, Trust trust) {
  return openIn(folder, name, O_DIRECTORY, S_IFDIR, trust);
}

Expected<Descriptor> openFile(const Descriptor &folder, const std::string &name,
                              Trust trust) {
  // With O_NONBLOCK, a fifo in place of the file does not block.
  return openIn(folder, name, O_NONBLOCK, S_IFREG, trust);
}

Expected<uint64_t> sizeOf(const Descriptor &file) {
  struct stat info;
  if (::fstat(file.get(), &info) != 0)
    return ioError("cannot read the size of a file of the package");
  return static_cast<uint64_t>(info.st_size);
}

/// Calls `take(bytes, count)` with the file's contents, piece by piece.
template <typename Take>
static Status readPieces(const Descriptor &file, Take take) {
  Expected<uint64_t> size = sizeOf(file);
  if (!size)
    return size.takeStatus();
  std::string piece(std::min<uint64_t>(*size + 1, 256 * 1024), '\0');
  for (off_t at = 0;;) {
    ssize_t got = ::pread(file.get(), piece.data(), piece.size(), at);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return ioError("cannot read a file of the package");
    if (got == 0)
      return {};
    at += got;
    if (!take(piece.data(), static_cast<size_t>(got)))
      return Status(StatusCode::BadPackage,
                    "a file of the package is too large");
  }
}

Expected<std::string> readAll(const Descriptor &file, uint64_t limit) {
  std::string text;
  Status s = readPieces(file, [&](const char *bytes, size_t count) {
    text.append(bytes, count);
    return text.size() <= limit;
  });
  if (!s.ok())
    return s;
  return text;
}

Expected<std::string> hashAll(const Descriptor &file) {
  FileHash hash;
  Status s = readPieces(file, [&](const char *bytes, size_t count) {
    hash.update(bytes, count);
    return true;
  });
  if (!s.ok())
    return s;
  return hash.finish();
}

FileWriter::FileWriter(const Descriptor &folder, const std::string &name,
                       bool hash, Trust readers)
    : file(::openat(folder.get(), name.c_str(),
                    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)),
      hashing(hash) {
  if (!file.valid() ||
      (readers != Trust::User && ::fchmod(file.get(), fileMode(readers)) != 0))
    failure = ioError("cannot create " + name);
}

void FileWriter::write(const void *data, size_t size) {
  if (!failure.ok())
    return;
  if (hashing)
    hasher.update(data, size);
  written += size;
  auto *bytes = static_cast<const char *>(data);
  while (size) {
    ssize_t put = ::write(file.get(), bytes, size);
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0) {
      failure = ioError("cannot write the package");
      return;
    }
    bytes += put;
    size -= static_cast<size_t>(put);
  }
}

Status FileWriter::finish(uint64_t &bytes, std::string &hash) {
  bytes = written;
  if (failure.ok() && hashing)
    hash = hasher.finish();
  return std::move(failure);
}

/// Empties the folder of the descriptor, and closes the descriptor.
static void removeAllIn(int descriptor) {
  DIR *folder = ::fdopendir(descriptor);
  if (!folder) {
    ::close(descriptor);
    return;
  }
  while (const dirent *entry = ::readdir(folder)) {
    std::string_view name = entry->d_name;
    if (name == "." || name == ".." ||
        ::unlinkat(descriptor, entry->d_name, 0) == 0)
      continue;
    int inner = ::openat(descriptor, entry->d_name,
                         O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner >= 0)
      removeAllIn(inner);
    ::unlinkat(descriptor, entry->d_name, AT_REMOVEDIR);
  }
  ::closedir(folder);
}

void removeFolder(const std::string &path) {
  int folder =
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder >= 0)
    removeAllIn(folder);
  ::rmdir(path.c_str());
}

} // namespace anabranch::package
