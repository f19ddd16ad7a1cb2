//===- Sha256Test.cpp - published hashes, and both ways agree -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/files/Sha256.h"

#include <gtest/gtest.h>

namespace anabranch::package {

TEST(Sha256, MatchesPublishedHashes) {
  EXPECT_EQ(Sha256::of("", 0), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b93"
                               "4ca495991b7852b855");
  EXPECT_EQ(Sha256::of("abc", 3), "ba7816bf8f01cfea414140de5dae2223b00361a39617"
                                  "7a9cb410ff61f20015ad");
  std::string million(1000000, 'a');
  EXPECT_EQ(Sha256::of(million.data(), million.size()),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesDoNotMatter) {
  std::string text;
  for (int i = 0; i < 300; ++i)
    text += static_cast<char>(i * 7);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    Sha256 hash;
    hash.update(text.data(), cut);
    hash.update(text.data() + cut, text.size() - cut);
    EXPECT_EQ(hash.finish(), Sha256::of(text.data(), text.size()));
  }
}

TEST(Sha256, NativeEqualsPortable) {
  if (!sha256HasNative())
    GTEST_SKIP() << "this CPU has no SHA instructions";
  uint8_t data[640];
  for (size_t i = 0; i < sizeof(data); ++i)
    data[i] = static_cast<uint8_t>(i * i + 3);
  uint32_t a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, b[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  sha256BlocksPortable(a, data, 10);
  sha256BlocksNative(b, data, 10);
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(a[i], b[i]);
}

} // namespace anabranch::package
