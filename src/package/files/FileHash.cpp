//===- FileHash.cpp - whether bytes are as they were ----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/files/FileHash.h"

// The runtime links no library but those of C and C++, so xxHash's functions
// are compiled into this file.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace anabranch::package {

struct FileHash::State {
  XXH3_state_t xxh3;
};

/// The digits in xxHash's canonical order, which is the same on all machines.
static std::string digitsOf(XXH128_hash_t hash) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, hash);
  std::string hex;
  for (unsigned char byte : bytes.digest) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

FileHash::FileHash() : state(std::make_unique<State>()) {
  XXH3_128bits_reset(&state->xxh3);
}

FileHash::~FileHash() = default;

void FileHash::update(const void *data, size_t size) {
  XXH3_128bits_update(&state->xxh3, data, size);
}

std::string FileHash::finish() const {
  return digitsOf(XXH3_128bits_digest(&state->xxh3));
}

std::string FileHash::of(const void *data, size_t size) {
  return digitsOf(XXH3_128bits(data, size));
}

} // namespace anabranch::package
