//===- Slot.cpp - one entry of the cache ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "cache/Slot.h"

#include "cache/Index.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace anabranch::cache {

namespace {

using package::Descriptor;
using package::FileWriter;
using package::ioError;
using package::Trust;

constexpr uint64_t indexLimit = 64u << 20;

Status refuse(const std::string &why) {
  return Status(StatusCode::BadPackage, why);
}

/// Fails unless the file belongs to this user and only this user has access.
Status checkPrivate(const Descriptor &file, const std::string &name) {
  struct stat info;
  if (::fstat(file.get(), &info) != 0)
    return ioError("cannot read owner and mode of " + name);
  if (info.st_uid != ::geteuid())
    return refuse(name + " does not belong to this user");
  if ((info.st_mode & 07777) != 0600)
    return refuse(name + " has another mode than 0600");
  return {};
}

Status checkFile(const Descriptor &folder, const IndexFile &expected,
                 Trust trust) {
  Expected<Descriptor> file = package::openFile(folder, expected.name, trust);
  if (!file)
    return refuse(file.status().message());
  Expected<uint64_t> bytes = package::sizeOf(*file);
  if (!bytes)
    return bytes.takeStatus();
  if (*bytes != expected.bytes)
    return refuse(expected.name + " was truncated or extended");
  Expected<std::string> hash = package::hashAll(*file);
  if (!hash)
    return hash.takeStatus();
  if (*hash != expected.hash)
    return refuse(expected.name + " was changed");
  return {};
}

Status copyInto(FileWriter &writer, const Descriptor &source,
                const std::string &path) {
  std::string piece(256 * 1024, '\0');
  for (;;) {
    ssize_t got = ::read(source.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return ioError("cannot read " + path);
    if (got == 0)
      return {};
    writer.write(piece.data(), size_t(got));
  }
}

/// Gives the entry a link to a file that has the bytes of `source` already, and
/// the row of that file. Returns false if there is none.
Expected<bool> linkFile(const Descriptor &folder, const Descriptor &source,
                        const Contents &contents, IndexFile &row) {
  Expected<uint64_t> bytes = package::sizeOf(source);
  if (!bytes)
    return bytes.takeStatus();
  if (!contents.takes(*bytes))
    return false;
  Expected<std::string> hash = package::hashAll(source);
  if (!hash)
    return hash.takeStatus();
  row.bytes = *bytes;
  row.hash = std::move(*hash);
  return contents.link(source, row, folder);
}

Status copyFile(const Descriptor &folder, const std::string &path, Trust trust,
                const Contents &contents, IndexFile &row) {
  Descriptor source(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!source.valid())
    return ioError("cannot open " + path);
  Expected<bool> linked = linkFile(folder, source, contents, row);
  if (!linked)
    return linked.takeStatus();
  if (*linked)
    return {};
  FileWriter writer(folder, row.name, true, trust);
  if (Status s = copyInto(writer, source, path); !s.ok())
    return s;
  if (Status s = writer.finish(row.bytes, row.hash); !s.ok())
    return s;
  if (contents.takes(row.bytes))
    contents.keep(folder, row);
  return {};
}

Status writeBytes(const Descriptor &folder, const std::string &bytes,
                  Trust trust, IndexFile &row) {
  FileWriter writer(folder, row.name, true, trust);
  writer.write(bytes.data(), bytes.size());
  return writer.finish(row.bytes, row.hash);
}

Status writeFile(const Descriptor &folder, const CacheFile &file, Trust trust,
                 const Contents &contents, IndexFile &row) {
  row.name = file.name;
  return file.source.empty()
             ? writeBytes(folder, file.bytes, trust, row)
             : copyFile(folder, file.source, trust, contents, row);
}

Status writeEntry(const std::string &path, const std::string &index,
                  const std::vector<CacheFile> &files, const std::string &text,
                  Trust trust, const Contents &contents) {
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid())
    return ioError("cannot open " + path);
  Index written;
  written.text = text;
  written.files.resize(files.size());
  for (size_t i = 0; i < files.size(); ++i)
    if (Status s =
            writeFile(folder, files[i], trust, contents, written.files[i]);
        !s.ok())
      return s;
  IndexFile self;
  self.name = index;
  return writeBytes(folder, writeIndex(written), trust, self);
}

/// Makes a folder with the mode of `trust`, whatever the umask is. On failure
/// returns false with errno set.
bool makeFolder(const std::string &path, Trust trust) {
  mode_t mode = package::folderMode(trust);
  return ::mkdir(path.c_str(), mode) == 0 &&
         (trust == Trust::User || ::chmod(path.c_str(), mode) == 0);
}

} // namespace

Slot::Slot(std::string folder, std::string index, const std::string &trust,
           std::string contents)
    : path(std::move(folder)), index(std::move(index)),
      contents(std::move(contents)) {
  if (Expected<Trust> named = package::trustNamed(trust))
    this->trust = *named;
  else
    wrongTrust = named.status().message();
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  size_t slash = path.rfind('/');
  parent = slash == std::string::npos ? "."
           : slash == 0               ? "/"
                                      : path.substr(0, slash);
  name = slash == std::string::npos ? path : path.substr(slash + 1);
}

Expected<Lock> Slot::lock(Lock::Kind kind, double seconds) const {
  if (!wrongTrust.empty())
    return Status(StatusCode::InvalidArgument, wrongTrust);
  if (kind == Lock::Kind::Exclusive) {
    if (Status s = makeFolders(parent, trust); !s.ok())
      return s;
    return Lock::take(lockPath(), kind, seconds, trust);
  }
  if (::access(parent.c_str(), W_OK) != 0 &&
      ::access(lockPath().c_str(), F_OK) != 0)
    return Lock();
  return Lock::take(lockPath(), kind, seconds, trust);
}

Expected<std::optional<std::string>> Slot::read() const {
  if (!wrongTrust.empty())
    return Status(StatusCode::InvalidArgument, wrongTrust);
  struct stat info;
  auto look = trust == Trust::User ? ::lstat : ::stat;
  if (look(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR)
      return std::optional<std::string>();
    return ioError("cannot read owner and mode of " + path);
  }
  if (!S_ISDIR(info.st_mode))
    return refuse(path + " is not a folder");
  for (const std::string &place : {parent, path})
    if (Expected<Descriptor> trusted = package::openFolder(place, trust);
        !trusted)
      return trusted.takeStatus();
  Expected<Descriptor> folder = package::openFolder(path, trust);
  if (!folder)
    return folder.takeStatus();
  Expected<Descriptor> file = package::openFile(*folder, index, trust);
  if (!file)
    return refuse(file.status().message());
  if (trust == Trust::User)
    if (Status s = checkPrivate(*file, index); !s.ok())
      return s;
  Expected<std::string> bytes = package::readAll(*file, indexLimit);
  if (!bytes)
    return bytes.takeStatus();
  Expected<Index> parsed = readIndex(*bytes);
  if (!parsed)
    return parsed.takeStatus();
  for (const IndexFile &row : parsed->files)
    if (Status s = checkFile(*folder, row, trust); !s.ok())
      return s;
  // This call fails in a folder that cannot be written. The entry then keeps
  // its old time; no process can prune it there.
  (void)::futimens(file->get(), nullptr);
  return std::optional<std::string>(std::move(parsed->text));
}

std::string Slot::freshPath() const {
  static std::atomic<unsigned> counter{0};
  auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return parent + "/" + litterPrefix() + std::to_string(::getpid()) + "-" +
         std::to_string(now) + "-" + std::to_string(counter++);
}

Status Slot::publish(const Lock &lock, const std::vector<CacheFile> &files,
                     const std::string &text) const {
  if (!lock.exclusive())
    return Status(StatusCode::Internal,
                  "publishing an entry needs its exclusive lock");
  if (Expected<Descriptor> trusted = package::openFolder(parent, trust);
      !trusted)
    return trusted.takeStatus();
  removeLitter(lock);
  std::string fresh = freshPath();
  if (!makeFolder(fresh, trust))
    return ioError("cannot create " + fresh);
  Status status =
      writeEntry(fresh, index, files, text, trust, Contents(contents, trust));
  if (status.ok() && ::rename(fresh.c_str(), path.c_str()) != 0) {
    bool occupied = errno == ENOTEMPTY || errno == EEXIST;
    if (!occupied || ::syscall(SYS_renameat2, AT_FDCWD, fresh.c_str(), AT_FDCWD,
                               path.c_str(), RENAME_EXCHANGE) != 0)
      status = ioError("cannot publish " + path);
  }
  // After an exchange, `fresh` is the old entry. After a rename it is gone.
  package::removeFolder(fresh);
  return status;
}

Status Slot::remove(const Lock &lock) const {
  if (!lock.exclusive())
    return Status(StatusCode::Internal,
                  "removing an entry needs its exclusive lock");
  std::string doomed = freshPath();
  if (::rename(path.c_str(), doomed.c_str()) != 0)
    return errno == ENOENT ? Status() : ioError("cannot remove " + path);
  struct stat info;
  if (::lstat(doomed.c_str(), &info) == 0 && !S_ISDIR(info.st_mode))
    ::unlink(doomed.c_str());
  else
    package::removeFolder(doomed);
  return {};
}

void Slot::removeLitter(const Lock &lock) const {
  if (!lock.exclusive())
    return;
  std::string prefix = litterPrefix();
  std::vector<std::string> found;
  if (DIR *folder = ::opendir(parent.c_str())) {
    while (const dirent *entry = ::readdir(folder))
      if (std::string(entry->d_name).rfind(prefix, 0) == 0)
        found.emplace_back(entry->d_name);
    ::closedir(folder);
  }
  for (const std::string &entry : found)
    package::removeFolder(parent + "/" + entry);
}

Status makeFolders(const std::string &path, Trust trust) {
  for (size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at);
    std::string part = path.substr(0, at);
    if (!makeFolder(part, trust) && errno != EEXIST)
      return ioError("cannot create " + part);
    if (at != std::string::npos)
      ++at;
  }
  return {};
}

} // namespace anabranch::cache
