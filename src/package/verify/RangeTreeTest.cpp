//===- RangeTreeTest.cpp - the tree against an array ----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/verify/RangeTree.h"

#include "gtest/gtest.h"

#include <random>

namespace anabranch::package {
namespace {

TEST(RangeTree, EqualsAnArray) {
  std::mt19937 random(1);
  auto pick = [&](size_t high) {
    return std::uniform_int_distribution<size_t>(0, high)(random);
  };
  for (size_t places = 0; places < 40; ++places) {
    RangeTree tree(places);
    for (int round = 0; round < 2; ++round) {
      std::vector<int> array(places, RangeTree::none);
      for (int step = 0; step < 200; ++step) {
        size_t begin = pick(places), end = begin + pick(places - begin);
        if (step % 2) {
          int value = static_cast<int>(pick(50));
          tree.put(begin, end, value);
          for (size_t i = begin; i < end; ++i)
            array[i] = std::max(array[i], value);
          continue;
        }
        int largest = RangeTree::none;
        for (size_t i = begin; i < end; ++i)
          largest = std::max(largest, array[i]);
        ASSERT_EQ(tree.get(begin, end), largest)
            << places << " places, " << begin << " to " << end;
      }
      tree.clear();
    }
  }
}

} // namespace
} // namespace anabranch::package
