//===- ExpandF16Test.cpp - conversions of f16 against the compiler's ------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/native/ConversionKernel.h"

#include <cmath>
#include <cstring>
#include <random>

using namespace anabranch;
using namespace anabranch::native;

namespace {

constexpr int64_t lanes = 8;

class F16Test : public testing::TestWithParam<const char *> {
protected:
  /// Converts the numbers by an operation; none if this processor can't.
  template <typename To, typename From>
  std::vector<To> convert(const std::string &op, const char *from,
                          const char *to, const std::vector<From> &numbers) {
    std::string steps = "%y = arith." + op + " %x : " + vectorOf(lanes, from) +
                        " to " + vectorOf(lanes, to);
    return native::convert<To>({lanes, from, to, steps}, GetParam(), numbers);
  }
};

template <typename Number> bool isSame(Number a, Number b) {
  return (std::isnan(double(a)) && std::isnan(double(b))) ||
         std::memcmp(&a, &b, sizeof a) == 0;
}

TEST_P(F16Test, EveryNumberIsWidened) {
  std::vector<_Float16> all;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    auto half = static_cast<uint16_t>(bits);
    std::memcpy(&all.emplace_back(), &half, sizeof half);
  }
  auto floats = convert<float>("extf", "f16", "f32", all);
  auto doubles = convert<double>("extf", "f16", "f64", all);
  for (size_t i = 0; i < floats.size(); ++i) {
    ASSERT_TRUE(isSame(floats[i], float(all[i]))) << i;
    ASSERT_TRUE(isSame(doubles[i], double(all[i]))) << i;
  }
}

/// All numbers of f16, their neighbours and the middles between them, and
/// random ones.
std::vector<float> samples() {
  std::vector<float> found;
  std::mt19937 random(1);
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    auto half = static_cast<uint16_t>(bits);
    _Float16 number;
    std::memcpy(&number, &half, sizeof half);
    uint32_t wide;
    auto exact = float(number);
    std::memcpy(&wide, &exact, sizeof wide);
    for (uint32_t near : {wide, wide + 1, wide + 0xfff, wide + 0x1000,
                          wide + 0x1001, uint32_t(random())})
      std::memcpy(&found.emplace_back(), &near, sizeof near);
  }
  for (float number : {65519.0F, 65520.0F, 65536.0F, 0x1p-24F, 0x1p-25F,
                       0x1.000002p-25F, 0x1p-26F, 0x1.ffep-15F})
    found.insert(found.end(), {number, -number});
  found.resize((found.size() + lanes - 1) / lanes * lanes);
  return found;
}

TEST_P(F16Test, RoundsToNearestEven) {
  std::vector<float> floats = samples();
  auto halves = convert<_Float16>("truncf", "f32", "f16", floats);
  for (size_t i = 0; i < halves.size(); ++i)
    ASSERT_TRUE(isSame(halves[i], _Float16(floats[i])))
        << std::hexfloat << floats[i] << " became " << float(halves[i]);
}

INSTANTIATE_TEST_SUITE_P(Targets, F16Test,
                         testing::Values("portable", "avx2", "aarch64"));

} // namespace
