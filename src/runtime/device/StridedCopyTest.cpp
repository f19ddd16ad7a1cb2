//===- StridedCopyTest.cpp - every layout against the definition ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/device/StridedCopy.h"

#include <gtest/gtest.h>
#include <random>

namespace anabranch::runtime {

namespace {

/// The strides of a random layout with gaps. `bytes` becomes the number of
/// bytes it spans.
int64_t randomStrides(std::mt19937 &random, const std::vector<int64_t> &shape,
                      std::vector<int64_t> &strides) {
  std::vector<size_t> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  strides.resize(shape.size());
  int64_t next = 1 + static_cast<int64_t>(random() % 2);
  for (size_t d : order) {
    strides[d] = next;
    next = next * std::max<int64_t>(shape[d], 1) +
           static_cast<int64_t>(random() % 2);
  }
  return next + 8;
}

TEST(StridedCopy, MatchesTheDefinition) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<int64_t> shape(random() % 5), from, to;
    int64_t count = 1;
    for (int64_t &size : shape)
      count *= size = static_cast<int64_t>(random() % 5);
    DType dtypes[] = {DType::U8, DType::F16, DType::F32, DType::F64,
                      DType::C128};
    DType dtype = dtypes[random() % 5];
    auto item = static_cast<int64_t>(itemSize(dtype));
    std::vector<uint8_t> source(randomStrides(random, shape, from) * item);
    std::vector<uint8_t> target(randomStrides(random, shape, to) * item, 0xee);
    for (uint8_t &byte : source)
      byte = static_cast<uint8_t>(random());
    std::vector<uint8_t> expected = target;
    for (int64_t n = 0; n < count; ++n) {
      int64_t rest = n, a = 0, b = 0;
      for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
        a += rest % shape[d] * from[d];
        b += rest % shape[d] * to[d];
      }
      std::copy_n(source.begin() + a * item, item, expected.begin() + b * item);
    }
    auto rank = static_cast<int32_t>(shape.size());
    stridedCopy({source.data(), shape.data(), from.data(), rank, dtype},
                {target.data(), shape.data(), to.data(), rank, dtype});
    EXPECT_EQ(target, expected);
  }
}

TEST(StridedCopy, BroadcastsAndFillsInStrides) {
  const float source[] = {1, 2};
  float target[6];
  const int64_t shape[] = {3, 2}, from[] = {0, 1};
  stridedCopy({const_cast<float *>(source), shape, from, 2, DType::F32},
              {target, shape, nullptr, 2, DType::F32});
  EXPECT_EQ(std::vector<float>(target, target + 6),
            (std::vector<float>{1, 2, 1, 2, 1, 2}));
}

} // namespace
} // namespace anabranch::runtime
