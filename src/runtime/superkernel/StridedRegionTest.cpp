//===- StridedRegionTest.cpp - regions against sets of bytes --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/superkernel/StridedRegion.h"

#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <set>

namespace anabranch::runtime {

namespace {

std::set<int64_t> bytesOf(const anabranch_strided_region &r, int64_t base) {
  std::set<int64_t> bytes;
  for (int64_t i = 0; i < r.count; ++i)
    for (int64_t b = 0; b < r.width; ++b)
      bytes.insert(base + r.offset + i * r.pitch + b);
  return bytes;
}

std::set<int64_t> bytesOf(const StridedRegion &r) {
  return bytesOf({r.begin, r.width, r.pitch, r.count}, 0);
}

bool share(const std::set<int64_t> &a, const std::set<int64_t> &b) {
  for (int64_t byte : a)
    if (b.count(byte))
      return true;
  return false;
}

class StridedRegions : public ::testing::Test {
protected:
  int64_t from(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % (high - low + 1));
  }
  anabranch_strided_region any() {
    return {from(-5, 40), from(-1, 6), from(-9, 9), from(-1, 5)};
  }
  /// Calls `check` with many pairs of regions that are not empty.
  void forPairs(
      const std::function<void(StridedRegion, const StridedRegion &)> &check) {
    for (int round = 0; round < 50000 && !HasFatalFailure(); ++round) {
      auto a = regionAt(any(), 0), b = regionAt(any(), 0);
      if (a && b)
        check(*a, *b);
    }
  }
  std::mt19937 random{1};
};

TEST_F(StridedRegions, AreNormalizedToTheSameBytes) {
  for (int round = 0; round < 20000; ++round) {
    anabranch_strided_region said = any();
    int64_t base = from(0, 3);
    auto region = regionAt(said, base);
    std::set<int64_t> expected = bytesOf(said, base);
    ASSERT_EQ(region.has_value(), !expected.empty());
    if (!region)
      continue;
    ASSERT_EQ(bytesOf(*region), expected);
    EXPECT_EQ(region->begin, *expected.begin());
    EXPECT_EQ(region->end(), *expected.rbegin() + 1);
    EXPECT_TRUE(region->isRun() || region->pitch > region->width);
  }
}

TEST_F(StridedRegions, MeetWhereTheyShareAByte) {
  int met = 0;
  forPairs([&](const StridedRegion &a, const StridedRegion &b) {
    bool expected = share(bytesOf(a), bytesOf(b));
    ASSERT_EQ(meets(a, b), expected);
    ASSERT_EQ(meets(b, a), expected);
    met += expected;
  });
  EXPECT_GT(met, 1000);
}

TEST_F(StridedRegions, OfManyRunsWithDifferentPitchesNeverMissAByte) {
  StridedRegion a{0, 4, 64, 1000}, b{8, 4, 128, 500};
  EXPECT_TRUE(meets(a, b)) << "cannot be told from a close look";
  b.pitch = a.pitch;
  EXPECT_FALSE(meets(a, b));
}

TEST_F(StridedRegions, AreJoinedToExactlyBoth) {
  int joined = 0;
  forPairs([&](StridedRegion a, const StridedRegion &b) {
    std::set<int64_t> expected = bytesOf(a), other = bytesOf(b);
    expected.insert(other.begin(), other.end());
    if (join(a, b)) {
      ++joined;
      ASSERT_EQ(bytesOf(a), expected);
    }
  });
  EXPECT_GT(joined, 1000);
  StridedRegion left{0, 16, 64, 8}, right{16, 48, 64, 8};
  ASSERT_TRUE(join(left, right));
  EXPECT_TRUE(left.isRun());
}

TEST_F(StridedRegions, ThatCannotBeAddressesMeetAll) {
  for (anabranch_strided_region bad :
       {anabranch_strided_region{INT64_MAX, 1, 0, 1},
        anabranch_strided_region{0, INT64_MAX, 0, 1},
        anabranch_strided_region{0, 8, INT64_MAX / 2, 3},
        anabranch_strided_region{INT64_MIN, 8, 16, 3}}) {
    auto region = regionAt(bad, 1 << 20);
    ASSERT_TRUE(region);
    EXPECT_TRUE(meets(*region, StridedRegion{0, 1, 0, 1}));
    EXPECT_TRUE(meets(StridedRegion{int64_t(1) << 40, 4, 64, 8}, *region));
  }
}

} // namespace
} // namespace anabranch::runtime
