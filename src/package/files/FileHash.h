//===- FileHash.h - whether bytes are as they were --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Every load hashes the weights, so the hash must be as fast as memory. SHA-256
// reads about a byte in a cycle, which is too slow. Its protection against an
// author who constructs two texts of one hash is not needed: a package is
// native code, and owner and mode of its files say who may have written it.

#ifndef ANABRANCH_PACKAGE_FILES_FILEHASH_H
#define ANABRANCH_PACKAGE_FILES_FILEHASH_H

#include "package/files/Sha256.h"

namespace anabranch::package {

/// SHA-256 over a short image of the data. Each KiB, the last one filled up
/// with zeros, becomes four sums of products with a fixed key (NH, as in UMAC,
/// RFC 4418). The number of bytes follows. Two texts that were not constructed
/// for this key have the same image with a probability of 2^-128, wherever and
/// however they differ.
class FileHash {
public:
  void update(const void *data, size_t size);
  /// The hash as 64 digits of lower-case hex. The object must not be used
  /// afterwards.
  std::string finish();

  static std::string of(const void *data, size_t size);

  static constexpr size_t blockBytes = 1024;

private:
  Sha256 image;
  uint64_t total = 0;
  uint8_t pending[blockBytes];
};

/// The images of whole blocks, 32 bytes each. Public for the test that compares
/// them.
void fileHashBlocksPortable(uint64_t *image, const uint8_t *data,
                            size_t blocks);
void fileHashBlocksWide(uint64_t *image, const uint8_t *data, size_t blocks);
bool fileHashHasWide();

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_FILES_FILEHASH_H
