//===- Contents.cpp - large files that entries share ----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "cache/Contents.h"

#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace anabranch::cache {

namespace {

using package::Descriptor;
using package::Trust;

std::string nameOf(const IndexFile &row) {
  return row.hash + "-" + std::to_string(row.bytes);
}

/// Whether this process may have written the file for readers of `trust`.
bool isOurs(const Descriptor &file, Trust trust) {
  struct stat info;
  return ::fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode) &&
         info.st_uid == ::geteuid() &&
         (info.st_mode & 07777) == package::fileMode(trust);
}

/// Fills `piece` from the offset `at`, and shortens it at the end of the file.
bool readPiece(const Descriptor &file, off_t at, std::string &piece) {
  size_t filled = 0;
  while (filled < piece.size()) {
    ssize_t got = ::pread(file.get(), piece.data() + filled,
                          piece.size() - filled, at + off_t(filled));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return false;
    if (got == 0)
      break;
    filled += size_t(got);
  }
  piece.resize(filled);
  return true;
}

bool equalBytes(const Descriptor &one, const Descriptor &other) {
  constexpr size_t size = 256 * 1024;
  std::string left, right;
  off_t at = 0;
  do {
    left.resize(size);
    right.resize(size);
    if (!readPiece(one, at, left) || !readPiece(other, at, right) ||
        left != right)
      return false;
    at += off_t(size);
  } while (left.size() == size);
  return true;
}

} // namespace

bool Contents::link(const Descriptor &source, const IndexFile &row,
                    const Descriptor &folder) const {
  std::string kept = path + "/" + nameOf(row);
  if (::linkat(AT_FDCWD, kept.c_str(), folder.get(), row.name.c_str(), 0) != 0)
    return false;
  // What the new link names is compared: the old name may change meanwhile.
  Expected<Descriptor> file = package::openFile(folder, row.name, trust);
  if (file && isOurs(*file, trust) && equalBytes(source, *file))
    return true;
  ::unlinkat(folder.get(), row.name.c_str(), 0);
  return false;
}

void Contents::keep(const Descriptor &folder, const IndexFile &row) const {
  std::string kept = path + "/" + nameOf(row);
  auto put = [&] {
    return ::linkat(folder.get(), row.name.c_str(), AT_FDCWD, kept.c_str(),
                    0) == 0;
  };
  if (put())
    return;
  if (errno == EEXIST)
    ::unlink(kept.c_str());
  else if (::mkdir(path.c_str(), package::folderMode(trust)) == 0)
    ::chmod(path.c_str(), package::folderMode(trust));
  put();
}

void Contents::removeUnused(const std::string &path) {
  DIR *folder = ::opendir(path.c_str());
  if (!folder)
    return;
  while (const dirent *entry = ::readdir(folder)) {
    struct stat info;
    int at = ::dirfd(folder);
    if (::fstatat(at, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(info.st_mode) && info.st_nlink == 1)
      ::unlinkat(at, entry->d_name, 0);
  }
  ::closedir(folder);
}

} // namespace anabranch::cache
