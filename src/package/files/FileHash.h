//===- FileHash.h - whether bytes are as they were --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Every load hashes the weights, so the hash must be as fast as memory. The
// hash detects damage. It does not stop an author who constructs two texts of
// one hash: a package is native code, so owner and mode of its files decide
// whether a load trusts them.

#ifndef ANABRANCH_PACKAGE_FILES_FILEHASH_H
#define ANABRANCH_PACKAGE_FILES_FILEHASH_H

#include <cstddef>
#include <memory>
#include <string>

namespace anabranch::package {

/// XXH3 with 128 bits. `xxh128sum` prints the same digits for a file.
class FileHash {
public:
  FileHash();
  ~FileHash();

  void update(const void *data, size_t size);
  /// The hash of all updates, as 32 digits of lower-case hex.
  std::string finish() const;

  static std::string of(const void *data, size_t size);

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_FILES_FILEHASH_H
