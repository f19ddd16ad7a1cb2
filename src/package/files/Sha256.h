//===- Sha256.h - hashes of a package's files -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PACKAGE_FILES_SHA256_H
#define ANABRANCH_PACKAGE_FILES_SHA256_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace anabranch::package {

/// SHA-256 of FIPS 180-4, so that `sha256sum` can check a package too. It uses
/// the CPU's SHA instructions if there are any.
class Sha256 {
public:
  Sha256();
  void update(const void *data, size_t size);
  /// The hash in lower-case hex. The object must not be used afterwards.
  std::string finish();

  static std::string of(const void *data, size_t size);

private:
  uint32_t state[8];
  uint64_t total = 0;
  uint8_t pending[64];
  size_t pendingSize = 0;
};

/// Both implementations. Public for the test that compares them.
void sha256BlocksPortable(uint32_t *state, const uint8_t *data, size_t blocks);
void sha256BlocksNative(uint32_t *state, const uint8_t *data, size_t blocks);
bool sha256HasNative();

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_FILES_SHA256_H
