//===- PartsTest.cpp - products of floats in AMX registers ----------------===//
// SPDX-License-Identifier: Apache-2.0
//
// AMX multiplies floats as sums of bf16 (FloatParts.h). These tests use numbers
// that are not exact in bf16, and compare with f64 and with loops in f32.

#include "support/kernels/AmxEmulation.h"
#include "support/kernels/CompiledCase.h"
#include "support/kernels/GemmCase.h"
#include "support/kernels/GemmNumbers.h"

#include <cmath>
#include <deque>
#include <limits>
#include <random>

using namespace anabranch;
using namespace anabranch::kernels;

namespace {

constexpr double unitRoundoff = 0x1p-24; ///< of f32
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double notANumber = std::numeric_limits<double>::quiet_NaN();

/// A product of f32 or f16 whose result is f32. The kernel may negate an
/// operand first, so that this operand is computed.
struct PartsCase : GemmCase {
  const char *negated = ""; ///< "left", "right" or none

  PartsCase(const GemmCase &c, const char *negated = "")
      : GemmCase(c), negated(negated) {
    result = "f32";
  }
};

/// A target on which AMX pays for products of any size.
native::TargetInfo eagerTarget() {
  native::TargetInfo target = llvm::cantFail(native::TargetInfo::get("amx"));
  for (native::Multiply multiply :
       {native::Multiply::FmaF32, native::Multiply::DotBF16})
    target.model.rates[int(multiply)] = 1e-6;
  return target;
}

/// The kernel's text without a relu, which would hide half of the sums.
std::string textOf(const PartsCase &c) {
  std::string text = kernelText(c), negated = c.negated;
  replaceAll(text, "arith.maximumf %u, %zero", "arith.addf %u, %zero");
  if (negated.empty())
    return text;
  std::string letters = negated == "left" ? c.left : c.right;
  std::string type = tensorType(c, letters, c.type), loops, kinds;
  for (char letter : letters) {
    loops += std::string(loops.empty() ? "" : ", ") + letter;
    kinds += std::string(kinds.empty() ? "" : ", ") + R"("parallel")";
  }
  std::string same = "affine_map<(" + loops + ") -> (" + loops + ")>";
  replaceAll(text, "%" + negated + ": " + type, "%given: " + type);
  replaceAll(text, "%zero = arith.constant 0.0 : f32",
             "%zero = arith.constant 0.0 : f32\n  %space = tensor.empty() : " +
                 type + "\n  %" + negated +
                 " = linalg.generic {indexing_maps = [" + same + ", " + same +
                 "], iterator_types = [" + kinds + "]} ins(%given : " + type +
                 ") outs(%space : " + type + ") {\n  ^bb0(%x: " + c.type +
                 ", %o: " + c.type + "):\n    %y = arith.negf %x : " + c.type +
                 "\n    linalg.yield %y : " + c.type + "\n  } -> " + type);
  return text;
}

/// Whether tile registers multiply the parts of the product's floats.
bool multipliesParts(const std::string &text,
                     const native::TargetInfo &target) {
  native::ParsedKernel parsed(text);
  return ChosenProduct(parsed.function(), target).layout.steps.hasParts();
}

/// The operands of a product, and the sums that a kernel made of them.
struct Product {
  PartsCase c;
  Numbers left, right;
  std::vector<float> sums;

  explicit Product(const PartsCase &c)
      : c(c), left(Numbers::reals(count(c, c.left), c.type, 1)),
        right(Numbers::reals(count(c, c.right), c.type, 2)),
        sums(count(c, resultLetters(c))) {}

  /// Runs a kernel whose buffers all lie beside a guard page. False if this
  /// processor cannot run it.
  bool run(const KernelLibrary &library, const native::TargetInfo &target,
           native::GuardedMemory::Side side) {
    auto emulation = AmxEmulation::of(target);
    if (!native::runs(target) && !emulation)
      return false;
    Guarded leftMemory(left.bytes, side),
        rightMemory(rightBytes(c, right), side);
    Guarded bias(std::vector<char>(c.n * sizeof(float)), side);
    native::GuardedMemory result(sums.size() * sizeof(float), side);
    EXPECT_EQ(library.run("product",
                          {leftMemory.data(), rightMemory.data(), bias.data(),
                           result.data()},
                          {}),
              0);
    EXPECT_TRUE(result.surroundingsAreIntact());
    std::memcpy(sums.data(), result.data(), result.size());
    if (emulation)
      EXPECT_FALSE(AmxEmulation::inUse());
    return true;
  }

  /// Calls `body` for each sum with functions of a depth that give its factors.
  template <typename BodyT> void forEachSum(BodyT body) const {
    double sign = *c.negated ? -1 : 1;
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t m = 0; m < c.m; ++m)
        for (int64_t n = 0; n < c.n; ++n) {
          auto leftAt = [&](int64_t k) {
            return sign * left.values[offset(c, c.left, b, m, n, k)];
          };
          auto rightAt = [&](int64_t k) {
            return right.values[offset(c, c.right, b, m, n, k)];
          };
          SCOPED_TRACE(std::to_string(b) + ", " + std::to_string(m) + ", " +
                       std::to_string(n));
          body(sums[offset(c, resultLetters(c), b, m, n, 0)], leftAt, rightAt);
          if (testing::Test::HasFailure())
            return;
        }
  }
};

/// Compares each sum with f64. All together are compared with loops of f32
/// multiply-adds.
void expectSums(const Product &product) {
  int64_t depth = product.c.k;
  double ours = 0, loops = 0;
  product.forEachSum([&](double sum, auto leftAt, auto rightAt) {
    double exact = 0, size = 0;
    float single = 0;
    for (int64_t k = 0; k < depth; ++k) {
      double factors = leftAt(k) * rightAt(k);
      exact += factors;
      size += std::fabs(factors);
      single = std::fma(float(leftAt(k)), float(rightAt(k)), single);
    }
    double error = sum - exact;
    // The products that are left out, and the rounding of the last sums, count
    // even for few depths.
    EXPECT_LE(std::fabs(error),
              (4 + 2 * std::sqrt(double(depth))) * unitRoundoff * size);
    ours += error * error / (size * size);
    loops += (single - exact) * (single - exact) / (size * size);
  });
  std::printf("error %.3g, of loops %.3g\n",
              std::sqrt(ours / product.sums.size()),
              std::sqrt(loops / product.sums.size()));
}

using Sides = std::initializer_list<native::GuardedMemory::Side>;
constexpr Sides sides = {native::GuardedMemory::Side::End,
                         native::GuardedMemory::Side::Begin};

class PartsTest
    : public testing::TestWithParam<std::tuple<const char *, PartsCase>> {
protected:
  /// The case, with its type.
  PartsCase c = std::get<1>(GetParam());
  const native::TargetInfo target = eagerTarget();

  PartsTest() { c.type = std::get<0>(GetParam()); }
};

TEST_P(PartsTest, SumsAreAsExactAsOfF32) {
  std::string text = textOf(c);
  // Panels of odd vectors are read by one vector, and other panels not at all.
  EXPECT_EQ(multipliesParts(text, target), c.width % 16 == 0);
  auto library = compileProduct(text, target);
  ASSERT_TRUE(library);
  for (native::GuardedMemory::Side side : sides) {
    Product product(c);
    if (!product.run(*library, target, side))
      GTEST_SKIP() << "this processor lacks what AMX's emulation needs";
    expectSums(product);
  }
}

const PartsCase cases[] = {
    // Columns that are neighbours.
    GemmCase{"one", 1, 1, 1, 1, "mk", "kn"},
    GemmCase{"register", 1, 16, 32, 32, "mk", "kn"},
    GemmCase{"depth_31", 1, 33, 17, 31, "mk", "kn"},
    GemmCase{"depth_33", 1, 2, 47, 33, "mk", "kn"},
    GemmCase{"depth_128", 1, 40, 64, 128, "mk", "kn"},
    GemmCase{"depth_700", 1, 37, 70, 700, "mk", "kn"},
    GemmCase{"row_of_columns", 1, 1, 100, 129, "mk", "kn"},
    GemmCase{"rows_257", 1, 257, 40, 129, "mk", "kn"},
    GemmCase{"left_turned", 1, 19, 50, 140, "km", "kn"},
    GemmCase{"batched", 3, 17, 33, 129, "bmk", "bkn"},
    GemmCase{"images", 2, 19, 50, 40, "mk", "bkn"},
    // Depths that are neighbours.
    GemmCase{"one_turned", 1, 1, 1, 1, "mk", "nk"},
    GemmCase{"depth_1", 1, 17, 40, 1, "mk", "nk"},
    GemmCase{"depth_32", 1, 15, 33, 32, "mk", "nk"},
    GemmCase{"depth_127", 1, 100, 63, 127, "mk", "nk"},
    GemmCase{"depth_129", 1, 31, 100, 129, "mk", "nk"},
    GemmCase{"depth_700_turned", 1, 50, 45, 700, "mk", "nk"},
    GemmCase{"row", 1, 1, 100, 31, "mk", "nk"},
    GemmCase{"rows_300", 1, 300, 40, 200, "mk", "nk"},
    GemmCase{"heads", 4, 50, 40, 64, "mbk", "bnk"},
    GemmCase{"batched_turned", 3, 17, 33, 129, "bmk", "bnk"},
    // Frozen weights.
    {{"panels", 1, 37, 100, 70, "mk", "nk", "", false, 32}},
    {{"panels_wide", 1, 40, 200, 129, "mk", "nk", "", false, 64}},
    {{"panels_narrow", 1, 40, 5, 48, "mk", "nk", "", false, 16}},
    {{"panels_wider_than_all", 1, 40, 15, 48, "mk", "nk", "", false, 32}},
    {{"panels_odd", 1, 40, 100, 66, "mk", "nk", "", false, 48}},
    {{"panels_of_no_vectors", 1, 23, 50, 66, "mk", "nk", "", false, 24}},
    {{"panels_deep", 1, 100, 70, 701, "mk", "nk", "", false, 32}},
    {{"panels_deep_wide", 1, 257, 70, 321, "mk", "nk", "", false, 64}},
    {{"panels_batched", 3, 17, 33, 129, "bmk", "bnk", "", false, 32}},
    {{"panels_row", 1, 1, 100, 300, "mk", "nk", "", false, 64}},
    {{"many_panels", 1, 40, 1100, 64, "mk", "nk", "", false, 64}},
    // Operands that the kernel computes.
    {{"computed", 1, 45, 70, 75, "mk", "kn"}, "right"},
    {{"computed_turned", 1, 45, 70, 175, "mk", "nk"}, "right"},
    {{"computed_batched", 2, 45, 35, 75, "bmk", "bkn"}, "right"},
    {{"computed_left", 1, 45, 70, 175, "mk", "nk"}, "left"},
    // Blocks of the depth inside of the loop of panels, and other tiles.
    {{"inside", 1, 60, 70, 100, "mk", "nk", "", false, 0, 1, "depth=32"}},
    {{"inside_panels", 1, 60, 170, 100, "mk", "nk", "", false, 64, 1,
      "depth=64,panels_per_tile=4"}},
    {{"small_tiles", 1, 100, 170, 300, "mk", "kn", "", false, 0, 1,
      "depth=96,rows_per_tile=16,panels_per_tile=2"}},
};

std::string partsName(
    const testing::TestParamInfo<std::tuple<const char *, PartsCase>> &info) {
  return native::testNameOf(
      {std::get<0>(info.param), std::get<1>(info.param).name});
}

/// Products of random sizes, with random blockings.
std::vector<PartsCase> randomCases() {
  std::vector<PartsCase> found;
  std::mt19937 random(5);
  static std::deque<std::string> texts;
  auto below = [&](int64_t end) { return int64_t(random() % end); };
  while (found.size() < 12) {
    bool batched = below(3) == 0, panels = below(2) == 0;
    BlockingParameters given;
    for (auto *part : {&given.depth, &given.rowsPerTile, &given.panelsPerTile})
      if (below(2))
        *part = below(200);
    const char *name =
        texts.emplace_back("random" + std::to_string(found.size())).c_str();
    GemmCase c{name,
               batched ? 1 + below(3) : 1,
               1 + below(120),
               1 + below(120),
               1 + below(400),
               batched ? "bmk" : "mk",
               batched ? "bnk" : "nk"};
    if (panels)
      c.width = 32 * (1 + below(2));
    else if (below(2))
      c.right = batched ? "bkn" : "kn";
    c.blocking = texts.emplace_back(given.text()).c_str();
    const char *negated[] = {"", "left", "right"};
    found.push_back({c, negated[below(panels ? 2 : 3)]});
  }
  return found;
}

INSTANTIATE_TEST_SUITE_P(Cases, PartsTest,
                         testing::Combine(testing::Values("f32", "f16"),
                                          testing::ValuesIn(cases)),
                         partsName);
INSTANTIATE_TEST_SUITE_P(Random, PartsTest,
                         testing::Combine(testing::Values("f32", "f16"),
                                          testing::ValuesIn(randomCases())),
                         partsName);

//===----------------------------------------------------------------------===//
// Numbers that are not finite, or nearly so
//===----------------------------------------------------------------------===//

/// Puts numbers at different depths of rows and columns. `sparse` rows and
/// columns have zeros at all other depths.
void putSpecial(Product &product) {
  PartsCase &c = product.c;
  bool isF32 = std::string(c.type) == "f32";
  double largest = isF32 ? std::numeric_limits<float>::max() : 65504;
  // The first parts of these two factors are above them, and so is the product
  // of these parts: it overflows, while that of the factors does not.
  double overflowing[] = {0x1.01p64, 0x1.fdp63};
  auto setLeft = [&](int64_t m, int64_t k, double value) {
    product.left.set(offset(c, c.left, 0, m, 0, k), c.type, value);
  };
  auto setRight = [&](int64_t n, int64_t k, double value) {
    product.right.set(offset(c, c.right, 0, 0, n, k), c.type, value);
  };
  auto clear = [&](int64_t m, int64_t n) {
    for (int64_t k = 0; k < c.k; ++k) {
      setLeft(m, k, 0);
      setRight(n, k, 0);
    }
  };
  // A sum of each pair (row, column) below has one of the products.
  setLeft(1, 3, infinity);
  setLeft(2, 30, -infinity);
  setLeft(3, 17, notANumber);
  setLeft(4, 5, infinity);
  setLeft(4, 6, -infinity);
  setRight(1, 60, -infinity);
  setRight(2, 61, infinity);
  setRight(3, 62, notANumber);
  setRight(4, 3, 0); // times an infinity
  setLeft(5, 60, 0);
  clear(6, 6);
  setLeft(6, 40, largest);
  setRight(6, 40, 0.1);
  clear(7, 7);
  setLeft(7, 41, -0.1);
  setRight(7, 41, largest);
  if (!isF32)
    return;
  clear(8, 8);
  setLeft(8, 42, overflowing[0]);
  setRight(8, 42, overflowing[1]);
  clear(9, 9);
  setLeft(9, 43, -overflowing[1]);
  setRight(9, 43, overflowing[0]);
  clear(10, 10);
  setLeft(10, 44, 1e30);
  setRight(10, 44, -1e30);
}

/// The kinds of numbers, and their values, are those of loops in f32.
void expectKinds(const Product &product) {
  size_t notFinite = 0;
  product.forEachSum([&](float sum, auto leftAt, auto rightAt) {
    float single = 0;
    double size = 0;
    for (int64_t k = 0; k < product.c.k; ++k) {
      single = std::fma(float(leftAt(k)), float(rightAt(k)), single);
      size += std::fabs(leftAt(k) * rightAt(k));
    }
    notFinite += !std::isfinite(single);
    if (std::isnan(single))
      EXPECT_TRUE(std::isnan(sum)) << sum;
    else if (std::isinf(single))
      EXPECT_EQ(sum, single);
    else
      EXPECT_NEAR(sum, single,
                  4 * std::sqrt(double(product.c.k)) * unitRoundoff * size);
  });
  EXPECT_GT(notFinite, 100U);
}

class SpecialPartsTest : public PartsTest {};

TEST_P(SpecialPartsTest, KindsAreThoseOfLoops) {
  Product product(c);
  putSpecial(product);
  ASSERT_TRUE(multipliesParts(textOf(c), target));
  auto library = compileProduct(textOf(c), target);
  ASSERT_TRUE(library);
  if (!product.run(*library, target, native::GuardedMemory::Side::End))
    GTEST_SKIP() << "this processor lacks what AMX's emulation needs";
  expectKinds(product);
}

const PartsCase specialCases[] = {
    {{"columns", 1, 21, 45, 70, "mk", "kn"}, ""},
    {{"depths", 1, 37, 32, 64, "mk", "nk"}, ""},
    {{"deep", 1, 60, 45, 200, "mk", "nk"}, ""},
    {{"panels", 1, 40, 70, 333, "mk", "nk", "", false, 32}},
    {{"computed", 1, 25, 45, 70, "mk", "kn"}, "right"},
    {{"computed_left", 1, 25, 45, 70, "mk", "nk"}, "left"},
};

INSTANTIATE_TEST_SUITE_P(Cases, SpecialPartsTest,
                         testing::Combine(testing::Values("f32", "f16"),
                                          testing::ValuesIn(specialCases)),
                         partsName);

} // namespace
