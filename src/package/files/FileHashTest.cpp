//===- FileHashTest.cpp - every change is another hash --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/files/FileHash.h"

#include <gtest/gtest.h>
#include <random>
#include <set>

namespace anabranch::package {

static std::string someBytes(size_t size) {
  std::mt19937_64 random(size);
  std::string bytes(size, '\0');
  for (char &byte : bytes)
    byte = static_cast<char>(random());
  return bytes;
}

static std::string hashOf(const std::string &bytes) {
  return FileHash::of(bytes.data(), bytes.size());
}

/// Later versions compare hashes with those of entries on disk. `xxh128sum`
/// prints the same.
TEST(FileHash, IsXxh3) {
  EXPECT_EQ(hashOf(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hashOf(std::string(3000, 'a')), "7694fa54c238da31591e187195fc0002");
}

TEST(FileHash, PiecesDoNotMatter) {
  std::string bytes = someBytes(5000);
  for (size_t cut = 0; cut <= bytes.size(); cut += 97) {
    FileHash hash;
    hash.update(bytes.data(), cut / 2);
    hash.update(bytes.data() + cut / 2, cut - cut / 2);
    hash.update(bytes.data() + cut, bytes.size() - cut);
    EXPECT_EQ(hash.finish(), hashOf(bytes)) << cut;
  }
}

TEST(FileHash, LengthCounts) {
  std::set<std::string> seen;
  for (size_t size : {0, 1, 1023, 1024, 1025, 2048, 200000})
    EXPECT_TRUE(seen.insert(hashOf(std::string(size, '\0'))).second) << size;
}

TEST(FileHash, EveryBitCounts) {
  std::string bytes = someBytes(2500);
  std::string known = hashOf(bytes);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    EXPECT_NE(hashOf(bytes), known) << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  }
}

TEST(FileHash, PlacesCount) {
  // Zeros, ones and equal words that moved: plain sums of words would not
  // notice.
  std::string bytes(4096, '\0');
  std::set<std::string> seen{hashOf(bytes)};
  for (size_t at = 0; at < bytes.size(); at += 4) {
    bytes[at] = 1;
    EXPECT_TRUE(seen.insert(hashOf(bytes)).second) << at;
    bytes[at] = 0;
  }
  std::string text = someBytes(4096), other = text;
  std::swap_ranges(other.begin(), other.begin() + 1024, other.begin() + 1024);
  EXPECT_NE(hashOf(text), hashOf(other));
  other = text;
  std::swap_ranges(other.begin(), other.begin() + 64, other.begin() + 64);
  EXPECT_NE(hashOf(text), hashOf(other));
}

} // namespace anabranch::package
