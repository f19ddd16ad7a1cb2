//===- ExpandF8Test.cpp - floats of eight bits against APFloat ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/native/ConversionKernel.h"

#include "llvm/ADT/APFloat.h"
#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace anabranch::native;

namespace {

constexpr int64_t byteLanes = 16;

struct Format {
  const char *name;
  const llvm::fltSemantics &(*semantics)();
};

using Case = std::tuple<const char *, Format>;

class F8Test : public testing::TestWithParam<Case> {
protected:
  const llvm::fltSemantics &semantics() const {
    return std::get<1>(GetParam()).semantics();
  }
  const char *name() const { return std::get<1>(GetParam()).name; }

  /// The line that makes `result` of `value` by an operation.
  static std::string step(const std::string &result, const std::string &op,
                          const std::string &value, const std::string &from,
                          const std::string &to) {
    return result + " = arith." + op + " " + value + " : " +
           vectorOf(byteLanes, from) + " to " + vectorOf(byteLanes, to) + "\n";
  }

  std::vector<uint8_t> narrow(const std::vector<float> &numbers) {
    std::string steps = step("%s", "truncf", "%x", "f32", name()) +
                        step("%y", "bitcast", "%s", name(), "i8");
    return convert<uint8_t>({byteLanes, "f32", "i8", steps},
                            std::get<0>(GetParam()), numbers);
  }

  std::vector<float> widen(const std::vector<uint8_t> &codes) {
    std::string steps = step("%s", "bitcast", "%x", "i8", name()) +
                        step("%y", "extf", "%s", name(), "f32");
    return convert<float>({byteLanes, "i8", "f32", steps},
                          std::get<0>(GetParam()), codes);
  }

  float value(uint8_t code) const {
    return llvm::APFloat(semantics(), llvm::APInt(8, code)).convertToFloat();
  }

  /// The code of a number as LLVM rounds it; but PyTorch makes numbers that are
  /// too large the largest E4M3FN.
  uint8_t rounded(float number) const {
    llvm::APFloat x(number);
    bool loses = false;
    x.convert(semantics(), llvm::APFloat::rmNearestTiesToEven, &loses);
    auto code = static_cast<uint8_t>(x.bitcastToAPInt().getZExtValue());
    bool saturates = &semantics() == &llvm::APFloat::Float8E4M3FN();
    return saturates && x.isNaN() && !std::isnan(number) ? code - 1 : code;
  }
};

bool isSame(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         (a == b && std::signbit(a) == std::signbit(b));
}

TEST_P(F8Test, EveryCodeIsWidened) {
  std::vector<uint8_t> all;
  for (int code = 0; code < 256; ++code)
    all.push_back(static_cast<uint8_t>(code));
  std::vector<float> floats = widen(all);
  for (size_t code = 0; code < floats.size(); ++code)
    EXPECT_TRUE(isSame(floats[code], value(static_cast<uint8_t>(code))))
        << code << " is " << floats[code];
}

/// Numbers at and beside the middle of two neighbours, and random bits.
TEST_P(F8Test, NumbersAreRoundedToTheNearest) {
  std::vector<float> numbers = {0.0f, INFINITY, NAN, 1e30f, 1e-30f, 1e-42f};
  for (int code = 0; code < 128; ++code) {
    float low = value(static_cast<uint8_t>(code)),
          high = value(static_cast<uint8_t>((code + 1) % 128));
    float middle = low + (high - low) / 2;
    for (float x : {low, middle, std::nextafter(middle, 0.0f),
                    std::nextafter(middle, INFINITY)})
      numbers.push_back(x);
  }
  std::mt19937 random(7);
  for (int i = 0; i < 100000; ++i) {
    uint32_t bits = random();
    float x = 0;
    std::memcpy(&x, &bits, sizeof x);
    numbers.push_back(x);
  }
  for (size_t i = 0, count = numbers.size(); i < count; ++i)
    numbers.push_back(-numbers[i]);
  numbers.resize(numbers.size() / byteLanes * byteLanes);
  std::vector<uint8_t> codes = narrow(numbers);
  for (size_t i = 0; i < codes.size(); ++i) {
    uint8_t expected = rounded(numbers[i]);
    if (std::isnan(value(expected)))
      EXPECT_TRUE(std::isnan(value(codes[i]))) << numbers[i];
    else
      ASSERT_EQ(codes[i], expected) << numbers[i];
  }
}

const Format formats[] = {
    {"f8E4M3FN", &llvm::APFloat::Float8E4M3FN},
    {"f8E5M2", &llvm::APFloat::Float8E5M2},
    {"f8E4M3FNUZ", &llvm::APFloat::Float8E4M3FNUZ},
    {"f8E5M2FNUZ", &llvm::APFloat::Float8E5M2FNUZ},
};

INSTANTIATE_TEST_SUITE_P(Targets, F8Test,
                         testing::Combine(testing::Values("portable", "avx2",
                                                          "avx512", "aarch64"),
                                          testing::ValuesIn(formats)),
                         [](const testing::TestParamInfo<Case> &info) {
                           std::string name = std::get<0>(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name + "_" + std::get<1>(info.param).name;
                         });

} // namespace
