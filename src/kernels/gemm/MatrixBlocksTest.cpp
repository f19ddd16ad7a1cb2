//===- MatrixBlocksTest.cpp - products by matrix instructions -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/gemm/ProductPlans.h"
#include "support/kernels/CompiledCase.h"
#include "support/kernels/GemmCase.h"
#include "support/kernels/GemmNumbers.h"
#include "support/kernels/PlanChoice.h"

#include <algorithm>
#include <cmath>

using namespace anabranch;
using namespace anabranch::kernels;

namespace {

/// Rows, columns and depths that end within a matrix in all ways.
const GemmCase ofBytes[] = {
    {"whole", 1, 24, 48, 64, "mk", "nk", "i8", false, 12, 8},
    {"tails", 1, 37, 100, 70, "mk", "nk", "i8", false, 12, 8},
    {"row", 1, 1, 64, 136, "mk", "nk", "i8", false, 16, 8},
    {"row_tail", 1, 1, 33, 131, "mk", "nk", "i8", false, 16, 8},
    {"two_rows", 1, 2, 33, 100, "mk", "nk", "i8", false, 16, 8},
    {"odd_rows", 1, 7, 29, 64, "mk", "nk", "i8", false, 8, 8},
    {"batched", 3, 17, 33, 21, "bmk", "bnk", "i8", false, 12, 8},
    {"turned_left", 1, 35, 40, 70, "km", "nk", "i8", false, 12, 8},
    {"blocks", 1, 50, 30, 4500, "mk", "nk", "i8", false, 12, 8},
    {"one_depth", 1, 9, 24, 1, "mk", "nk", "i8", false, 12, 8},
};

const GemmCase ofBF16[] = {
    {"bf16_whole", 1, 24, 48, 64, "mk", "nk", "bf16", false, 12, 4},
    {"bf16_tails", 1, 37, 100, 70, "mk", "nk", "bf16", false, 12, 4},
    {"bf16_row", 1, 1, 70, 131, "mk", "nk", "bf16", false, 16, 4},
    {"bf16_batched", 2, 19, 33, 50, "bmk", "bnk", "bf16", false, 8, 4},
    {"bf16_blocks", 1, 50, 30, 1301, "mk", "nk", "bf16", false, 12, 4},
};

struct Operands {
  Numbers left, right, bias;
};

std::vector<char> run(KernelLibrary &library, const GemmCase &c,
                      const Operands &given) {
  Guarded left(given.left.bytes), right(rightBytes(c, given.right)),
      bias(given.bias.bytes);
  Guarded result(Numbers(count(c, resultLetters(c)), resultType(c), 4).bytes);
  EXPECT_EQ(library.run("product",
                        {left.data(), right.data(), bias.data(), result.data()},
                        {}),
            0);
  return {result.data(), result.data() + result.size()};
}

/// The largest difference from a sum of doubles, as a share of the sum of the
/// products' sizes.
double errorOf(const GemmCase &c, const Operands &given,
               const std::vector<char> &result) {
  double worst = 0;
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t m = 0; m < c.m; ++m)
      for (int64_t n = 0; n < c.n; ++n) {
        double sum = given.bias.values[n], size = 1;
        for (int64_t k = 0; k < c.k; ++k) {
          double product = given.left.values[offset(c, c.left, b, m, n, k)] *
                           given.right.values[offset(c, c.right, b, m, n, k)];
          sum += product;
          size += std::fabs(product);
        }
        double got =
            read(result.data(), offset(c, resultLetters(c), b, m, n, 0),
                 resultType(c));
        worst = std::max(worst, std::fabs(got - std::max(0.0, sum)) / size);
      }
  return worst;
}

class MatrixBlocksTest
    : public testing::TestWithParam<TargetAndCase<GemmCase>> {};

TEST_P(MatrixBlocksTest, EqualsPlainLoops) {
  auto [name, c] = GetParam();
  native::TargetInfo target = llvm::cantFail(native::TargetInfo::get(name));
  auto library = compileCase(matrixBlocksRow, kernelText(c), target);
  ASSERT_TRUE(library);
  if (!native::runs(target))
    GTEST_SKIP() << "this processor lacks " << name;
  Operands given{Numbers(count(c, c.left), c.type, 1),
                 Numbers(count(c, c.right), c.type, 2),
                 Numbers(c.n, sumType(c), 3)};
  // A result of bf16 is rounded; bytes are exact.
  EXPECT_LE(errorOf(c, given, run(*library, c, given)),
            isInteger(c) ? 0 : 1.0 / 256);
}

/// Bytes of which one operand's are unsigned, either of them.
class MixedBytesTest : public MatrixBlocksTest {};

TEST_P(MixedBytesTest, EqualsPlainLoops) {
  auto [name, c] = GetParam();
  native::TargetInfo target = llvm::cantFail(native::TargetInfo::get(name));
  for (bool leftIsUnsigned : {true, false}) {
    std::string text = kernelText(c);
    size_t at = text.find("arith.extsi");
    if (!leftIsUnsigned)
      at = text.find("arith.extsi", at + 1);
    text.replace(at, 11, "arith.extui");
    auto library = compileCase(matrixBlocksRow, text, target);
    ASSERT_TRUE(library);
    if (!native::runs(target))
      continue;
    Operands given{Numbers(count(c, c.left), leftIsUnsigned ? "u8" : "i8", 1),
                   Numbers(count(c, c.right), leftIsUnsigned ? "i8" : "u8", 2),
                   Numbers(c.n, "i32", 3)};
    EXPECT_EQ(errorOf(c, given, run(*library, c, given)), 0);
  }
}

/// The instruction rounds a pair's sum to odd. The error of a sum stays that of
/// a sum of f32 in any order.
TEST(MatrixBlocks, SumsOfBF16AreAsCloseAsThoseOfFloats) {
  native::TargetInfo target =
      llvm::cantFail(native::TargetInfo::get("neoverse-v1"));
  GemmCase c{"reals", 1, 24, 48, 1000, "mk", "nk", "bf16", false, 12, 4};
  c.result = "f32";
  auto library = compileCase(matrixBlocksRow, kernelText(c), target);
  ASSERT_TRUE(library);
  if (!native::runs(target))
    GTEST_SKIP() << "this processor lacks neoverse-v1";
  Operands given{Numbers::reals(count(c, c.left), "bf16", 1),
                 Numbers::reals(count(c, c.right), "bf16", 2),
                 Numbers::reals(c.n, "f32", 3)};
  EXPECT_LE(errorOf(c, given, run(*library, c, given)), 1e-6);
}

TEST(MatrixBlocks, AreForPanelsOfTheirLayout) {
  auto refusal = [](const char *name, const GemmCase &c) {
    return refusalOf(matrixBlocksRow, kernelText(c),
                     llvm::cantFail(native::TargetInfo::get(name)));
  };
  GemmCase matrices = ofBytes[0], dots = ofBytes[0];
  dots.kPack = 4;
  EXPECT_EQ(refusal("neoverse-v1", matrices), "");
  for (const char *name : {"neoverse-n1", "avx512vnni", "portable"})
    EXPECT_EQ(refusal(name, matrices),
              "its right operand is in no panels of matrix instructions");
  EXPECT_EQ(refusal("neoverse-v1", dots),
            "its right operand is in no panels of matrix instructions");
}

INSTANTIATE_TEST_SUITE_P(Bytes, MatrixBlocksTest,
                         testing::Combine(testing::Values("neoverse-v1"),
                                          testing::ValuesIn(ofBytes)),
                         caseName<GemmCase>);
INSTANTIATE_TEST_SUITE_P(Bytes, MixedBytesTest,
                         testing::Combine(testing::Values("neoverse-v1"),
                                          testing::ValuesIn(ofBytes)),
                         caseName<GemmCase>);
INSTANTIATE_TEST_SUITE_P(BF16, MatrixBlocksTest,
                         testing::Combine(testing::Values("neoverse-v1"),
                                          testing::ValuesIn(ofBF16)),
                         caseName<GemmCase>);

} // namespace
