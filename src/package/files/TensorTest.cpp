//===- TensorTest.cpp - against a list of all bytes -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "anabranch/Tensor.h"

#include <gtest/gtest.h>
#include <random>
#include <set>
#include <vector>

namespace anabranch {

namespace {

struct Strided {
  int64_t offset;
  std::vector<int64_t> shape, strides;
  DType dtype = DType::I16;

  TensorView view(char *memory) const {
    return {memory + offset, shape.data(), strides.data(),
            static_cast<int32_t>(shape.size()), dtype};
  }
  /// The offsets of all bytes of the tensor.
  std::set<int64_t> bytes() const {
    auto item = static_cast<int64_t>(itemSize(dtype));
    std::set<int64_t> firsts = {offset}, all;
    for (size_t d = 0; d < shape.size(); ++d) {
      std::set<int64_t> next;
      for (int64_t first : firsts)
        for (int64_t i = 0; i < shape[d]; ++i)
          next.insert(first + i * strides[d] * item);
      firsts = next;
    }
    for (int64_t first : firsts)
      for (int64_t b = 0; b < item; ++b)
        all.insert(first + b);
    return all;
  }
  bool meets(const Strided &other) const {
    std::set<int64_t> mine = bytes();
    for (int64_t byte : other.bytes())
      if (mine.count(byte))
        return true;
    return false;
  }
};

bool verdict(const Strided &left, const Strided &right) {
  static char memory[1 << 16];
  char *middle = memory + sizeof(memory) / 2;
  bool answer = mayOverlap(left.view(middle), right.view(middle));
  EXPECT_EQ(answer, mayOverlap(right.view(middle), left.view(middle)));
  return answer;
}

TEST(Overlap, PartsOfOneTensorAreToldApart) {
  // Two parts of a tensor of 8 x 10 elements of two bytes.
  Strided left{0, {8, 4}, {10, 1}}, right{8, {8, 6}, {10, 1}};
  Strided top{0, {4, 10}, {10, 1}}, bottom{80, {4, 10}, {10, 1}};
  Strided even{0, {40}, {2}}, odd{2, {40}, {2}};
  Strided rows{0, {3, 10}, {20, 1}}, row{20, {10}, {1}};
  Strided high{12, {2, 4}, {10, 1}}, low{40, {6, 2}, {10, 1}};
  EXPECT_FALSE(verdict(left, right));
  EXPECT_FALSE(verdict(top, bottom));
  EXPECT_FALSE(verdict(even, odd));
  EXPECT_FALSE(verdict(rows, row));
  EXPECT_FALSE(verdict(high, low));
  EXPECT_TRUE(verdict(left, top));
  EXPECT_TRUE(verdict(even, row));
  EXPECT_TRUE(verdict(left, left));
  EXPECT_FALSE(verdict(left, {0, {0, 4}, {10, 1}}));
}

TEST(Overlap, NoCommonByteIsMissed) {
  std::mt19937 random(7);
  auto pick = [&](int64_t first, int64_t last) {
    return std::uniform_int_distribution<int64_t>(first, last)(random);
  };
  auto make = [&] {
    Strided made{pick(-30, 30) * 2, {}, {}};
    if (pick(0, 3) == 0)
      made.dtype = DType::I8;
    for (int64_t rank = pick(0, 3); rank > 0; --rank) {
      made.shape.push_back(pick(0, 4));
      made.strides.push_back(pick(-12, 12));
    }
    return made;
  };
  int apart = 0;
  for (int i = 0; i < 20000; ++i) {
    Strided left = make(), right = make();
    bool said = verdict(left, right);
    if (left.meets(right))
      ASSERT_TRUE(said);
    apart += !said;
  }
  EXPECT_GT(apart, 1000);
}

} // namespace

} // namespace anabranch
