//===- FileHash.cpp - whether bytes are as they were ----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/files/FileHash.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace anabranch::package {

namespace {

/// Words that are hashed side by side, in the vectors that the caller's target
/// has.
using Words = uint64_t __attribute__((vector_size(64)));

constexpr size_t lanes = sizeof(Words) / sizeof(uint64_t);
constexpr size_t passes = 4; // sums of a block
constexpr size_t groups = FileHash::blockBytes / sizeof(Words);
constexpr size_t batch = 128; // blocks between two updates of the image's hash

/// Both halves of the words' keys. Pass p uses the halves that begin p groups
/// later.
struct Key {
  Words low[groups + passes - 1], high[groups + passes - 1];
};

/// Makes a key that nobody chose: its bits come from SHA-256.
Key makeKey() {
  Key key;
  std::string digits;
  auto next = [&, at = size_t(0), round = 0u]() mutable {
    if (at == digits.size()) {
      std::string text = "anabranch file hash " + std::to_string(round++);
      digits = Sha256::of(text.data(), text.size());
      at = 0;
    }
    at += 8;
    return std::stoul(digits.substr(at - 8, 8), nullptr, 16);
  };
  for (size_t i = 0; i < std::size(key.low); ++i)
    for (size_t l = 0; l < lanes; ++l) {
      key.low[i][l] = next();
      key.high[i][l] = next();
    }
  return key;
}

__attribute__((always_inline)) inline void hashBlocks(const Key &key,
                                                      uint64_t *image,
                                                      const uint8_t *data,
                                                      size_t blocks) {
  for (; blocks; --blocks, data += FileHash::blockBytes, image += passes) {
    Words sums[passes] = {};
    for (size_t g = 0; g < groups; ++g) {
      Words words;
      std::memcpy(&words, data + g * sizeof(words), sizeof(words));
      for (size_t p = 0; p < passes; ++p) {
        Words low = (words + key.low[g + p]) & UINT32_MAX;
        Words high = ((words >> 32) + key.high[g + p]) & UINT32_MAX;
        sums[p] += low * high;
      }
    }
    for (size_t p = 0; p < passes; ++p) {
      image[p] = 0;
      for (size_t l = 0; l < lanes; ++l)
        image[p] += sums[p][l];
    }
  }
}

const Key &theKey() {
  static const Key key = makeKey();
  return key;
}

void imageOf(uint64_t *image, const uint8_t *data, size_t blocks) {
  static const auto hash =
      fileHashHasWide() ? fileHashBlocksWide : fileHashBlocksPortable;
  hash(image, data, blocks);
}

void addBlocks(Sha256 &hash, const uint8_t *data, size_t blocks) {
  std::array<uint64_t, batch * passes> image;
  while (blocks) {
    size_t count = std::min(blocks, batch);
    imageOf(image.data(), data, count);
    hash.update(image.data(), count * passes * sizeof(uint64_t));
    data += count * FileHash::blockBytes;
    blocks -= count;
  }
}

} // namespace

void fileHashBlocksPortable(uint64_t *image, const uint8_t *data,
                            size_t blocks) {
  hashBlocks(theKey(), image, data, blocks);
}

#if defined(__x86_64__)

bool fileHashHasWide() { return __builtin_cpu_supports("avx512f"); }

__attribute__((target("avx512f"))) void
fileHashBlocksWide(uint64_t *image, const uint8_t *data, size_t blocks) {
  hashBlocks(theKey(), image, data, blocks);
}

#else

bool fileHashHasWide() { return false; }
void fileHashBlocksWide(uint64_t *image, const uint8_t *data, size_t blocks) {
  fileHashBlocksPortable(image, data, blocks);
}

#endif

void FileHash::update(const void *data, size_t size) {
  if (size == 0)
    return;
  auto *bytes = static_cast<const uint8_t *>(data);
  size_t waiting = total % blockBytes;
  total += size;
  if (waiting) {
    size_t taken = std::min(size, blockBytes - waiting);
    std::memcpy(pending + waiting, bytes, taken);
    if (waiting + taken < blockBytes)
      return;
    addBlocks(image, pending, 1);
    bytes += taken;
    size -= taken;
  }
  addBlocks(image, bytes, size / blockBytes);
  if (size_t rest = size % blockBytes)
    std::memcpy(pending, bytes + size - rest, rest);
}

std::string FileHash::finish() {
  if (size_t waiting = total % blockBytes) {
    std::memset(pending + waiting, 0, blockBytes - waiting);
    addBlocks(image, pending, 1);
  }
  image.update(&total, sizeof(total));
  return image.finish();
}

std::string FileHash::of(const void *data, size_t size) {
  FileHash hash;
  hash.update(data, size);
  return hash.finish();
}

} // namespace anabranch::package
