//===- Files.h - the few file operations of a package -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PACKAGE_FILES_FILES_H
#define ANABRANCH_PACKAGE_FILES_FILES_H

#include "anabranch/Status.h"
#include "package/files/FileHash.h"
#include "package/files/Trust.h"

#include <cstdint>
#include <string>

namespace anabranch::package {

/// An open file. The destructor closes it.
class Descriptor {
public:
  explicit Descriptor(int fd = -1) : fd(fd) {}
  Descriptor(Descriptor &&other) noexcept : fd(other.fd) { other.fd = -1; }
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(fd, other.fd);
    return *this;
  }
  ~Descriptor();
  int get() const { return fd; }
  bool valid() const { return fd >= 0; }

private:
  int fd;
};

/// An error of errno, such as "cannot open x: No such file or directory".
Status ioError(const std::string &what);

/// Opens a folder, or a regular file in it, for reading. Refuses one that is
/// not trusted, and a link if the level of trust follows none.
Expected<Descriptor> openFolder(const std::string &path,
                                Trust trust = Trust::User);
Expected<Descriptor> openFolder(const Descriptor &folder,
                                const std::string &name,
                                Trust trust = Trust::User);
Expected<Descriptor> openFile(const Descriptor &folder, const std::string &name,
                              Trust trust = Trust::User);

Expected<uint64_t> sizeOf(const Descriptor &file);

/// Reads the whole file. An error if it is larger than `limit`.
Expected<std::string> readAll(const Descriptor &file, uint64_t limit);
Expected<std::string> hashAll(const Descriptor &file);

/// Writes a new file from front to back, and can hash it on the way. The file
/// gets the mode of this level of trust.
class FileWriter {
public:
  FileWriter(const Descriptor &folder, const std::string &name, bool hash,
             Trust readers = Trust::User);
  void write(const void *data, size_t size);
  /// Closes the file. Returns the first failure, if any. Sets `hash` only if
  /// the file is hashed.
  Status finish(uint64_t &bytes, std::string &hash);

private:
  Descriptor file;
  Status failure;
  uint64_t written = 0;
  bool hashing;
  FileHash hasher;
};

/// Removes a folder and all in it; no error if there is none. Links are
/// removed, not followed.
void removeFolder(const std::string &path);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_FILES_FILES_H
