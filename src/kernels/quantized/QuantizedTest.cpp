//===- QuantizedTest.cpp - products with weights of few bits --------------===//
// SPDX-License-Identifier: Apache-2.0
//
// Compares products with float64, for each way to multiply a weight of few
// bits: digits in vectors and in AMX registers, panels of floats, and parts
// times integers in AMX registers.

#include "kernels/quantized/QuantizedBlocking.h"
#include "kernels/quantized/QuantizedKernel.h"
#include "support/kernels/AmxEmulation.h"
#include "support/kernels/CompiledCase.h"
#include "support/kernels/GemmCase.h"
#include "support/kernels/GemmNumbers.h"
#include "support/kernels/PlanChoice.h"

#include <cmath>
#include <limits>
#include <random>

using namespace anabranch;
using namespace anabranch::kernels;

namespace {

using Code = anabranch::ir::QuantizedWeight::Code;
using Left = anabranch::ir::QuantizedWeight::Left;

/// A product [m, k] x [n, k]. A group of zero means the whole depth.
struct WeightCase {
  const char *name;
  int64_t m, n, k, bits, group;
  bool hasOffset = false;
  const char *scaleType = "f32";
  /// The given part of the blocking, as text of BlockingParameters.
  const char *blocking = "";
  Left left = Left::Exact;
  /// The integers are positions in a table of 16 numbers.
  bool hasTable = false;
  const char *leftType = "f32";
  /// Bytes of two integers have those of two columns.
  bool pairsColumns = false;

  WeightCase of(const native::TargetInfo &target) const {
    WeightCase changed = *this;
    changed.pairsColumns =
        bits == 4 && !hasTable && wantsPairsOfColumns(target);
    return changed;
  }
  int64_t depths() const { return group ? group : k; }
  int64_t stepDepths() const { return bits == 4 ? 8 : 4; }
  int64_t panels() const { return (n + 63) / 64; }
  int64_t steps() const { return (k + 15) / 16 * 16 / stepDepths(); }
  int64_t groups() const { return (k + depths() - 1) / depths(); }
  int64_t center() const { return hasOffset ? 0 : bits == 4 ? 7 : 128; }
};

const char *const byteOfDepths = R"mlir(
    %byte = tensor.extract %q[%panel, %line, %column, %place] : PACKED
    %word = arith.divui %k, %c4 : index
    %half = arith.remui %word, %parts : index)mlir";

const char *const byteOfColumns = R"mlir(
    %c2 = arith.constant 2 : index
    %c8 = arith.constant 8 : index
    %inside = arith.remui %column, %c8 : index
    %first = arith.subi %column, %inside : index
    %pair = arith.remui %column, %c4 : index
    %words = arith.muli %pair, %c2 : index
    %depths = arith.divui %k, %c4 : index
    %later = arith.remui %depths, %c2 : index
    %near = arith.addi %first, %words : index
    %slot = arith.addi %near, %later : index
    %byte = tensor.extract %q[%panel, %line, %slot, %place] : PACKED
    %half = arith.divui %inside, %c4 : index)mlir";

std::string textOf(const WeightCase &c) {
  std::string text = R"mlir(
func.func @product(%x: LEFT, %q: PACKED, %s: SCALES, %o: SCALES,
                   %numbers: tensor<16xf32>) -> RESULT
    attributes {anabranch.kernel, anabranch.blocking = "GIVEN"} {
  %space = tensor.empty() : WEIGHT
  %weight = linalg.generic {
      indexing_maps = [affine_map<(n, k) -> (n, k)>],
      iterator_types = ["parallel", "parallel"]}
      outs(%space : WEIGHT)
      attrs = {anabranch.quantized_weight = array<i64: BITS, GROUP, CENTER, ROLE, CODE, SCALED, NIBBLES>} {
  ^bb0(%out: f32):
    %n = linalg.index 0 : index
    %k = linalg.index 1 : index
    %c64 = arith.constant 64 : index
    %c4 = arith.constant 4 : index
    %step = arith.constant STEP : index
    %parts = arith.constant PARTS : index
    %group = arith.constant GROUP : index
    %panel = arith.divui %n, %c64 : index
    %column = arith.remui %n, %c64 : index
    %line = arith.divui %k, %step : index
    %place = arith.remui %k, %c4 : index
    BYTE
    %wide = arith.extui %byte : i8 to i32
    %far = arith.muli %half, %c4 : index
    %shift = arith.index_cast %far : index to i32
    %low = arith.shrui %wide, %shift : i32
    %mask = arith.constant MASK : i32
    %integer = arith.andi %low, %mask : i32
    NUMBER
    %row = arith.divui %k, %group : index
    %given = tensor.extract %s[%panel, %row, %column] : SCALES
    %scale = EXTEND %given : TYPE to f32
    %w = arith.mulf %number, %scale : f32
    OFFSET
  } -> WEIGHT
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : RESULT
  %init = linalg.fill ins(%zero : f32) outs(%empty : RESULT) -> RESULT
  %result = linalg.generic {
      indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
                       affine_map<(m, n, k) -> (n, k)>,
                       affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %weight : LEFT, WEIGHT) outs(%init : RESULT) {
  ^bb0(%a: ELEMENT, %b: f32, %t: f32):
    WIDEN
    %p = arith.mulf %x32, %b : f32
    %u = arith.addf %t, %p : f32
    linalg.yield %u : f32
  } -> RESULT
  return %result : RESULT
})mlir";
  auto number = [](int64_t value) { return std::to_string(value); };
  auto tensor = [&](std::initializer_list<int64_t> sizes,
                    const std::string &type) {
    std::string shape = "tensor<";
    for (int64_t size : sizes)
      shape += number(size) + "x";
    return shape + type + ">";
  };
  replaceAll(text, "BYTE", c.pairsColumns ? byteOfColumns : byteOfDepths);
  replaceAll(
      text, "NUMBER",
      c.hasTable
          ? "%position = arith.index_castui %integer : i32 to index\n"
            "    %number = tensor.extract %numbers[%position] : tensor<16xf32>"
          : "%center = arith.constant CENTER : i32\n"
            "    %difference = arith.subi %integer, %center : i32\n"
            "    %number = arith.sitofp %difference : i32 to f32");
  replaceAll(
      text, "CODE",
      number(static_cast<int64_t>(c.hasTable ? Code::Table : Code::Integer)));
  replaceAll(text, "OFFSET",
             c.hasOffset
                 ? "%second = tensor.extract %o[%panel, %row, %column] : "
                   "SCALES\n    %added = EXTEND %second : TYPE to f32\n"
                   "    %v = arith.addf %w, %added : f32\n"
                   "    linalg.yield %v : f32"
                 : "linalg.yield %w : f32");
  if (std::string(c.scaleType) == "f32") {
    replaceAll(text, "%scale = EXTEND %given : TYPE to f32\n    ", "");
    replaceAll(text, "%number, %scale", "%number, %given");
    replaceAll(text, "%added = EXTEND %second : TYPE to f32\n    ", "");
    replaceAll(text, "%w, %added", "%w, %second");
  }
  replaceAll(text, "EXTEND", "arith.extf");
  replaceAll(text, "GIVEN", c.blocking);
  replaceAll(text, "PACKED", tensor({c.panels(), c.steps(), 64, 4}, "i8"));
  replaceAll(text, "SCALES", tensor({c.panels(), c.groups(), 64}, c.scaleType));
  bool isNarrow = std::string(c.leftType) != "f32";
  replaceAll(text, "WIDEN",
             isNarrow ? "%x32 = arith.extf %a : ELEMENT to f32" : "");
  replaceAll(text, "%x32, ", isNarrow ? "%x32, " : "%a, ");
  replaceAll(text, "ELEMENT", c.leftType);
  replaceAll(text, "ROLE", number(static_cast<int64_t>(c.left)));
  replaceAll(text, "LEFT", tensor({c.m, c.k}, c.leftType));
  replaceAll(text, "RESULT", tensor({c.m, c.n}, "f32"));
  replaceAll(text, "WEIGHT", tensor({c.n, c.k}, "f32"));
  replaceAll(text, "BITS", number(c.bits));
  replaceAll(text, "GROUP", number(c.depths()));
  replaceAll(text, "CENTER", number(c.center()));
  replaceAll(text, "STEP", number(c.stepDepths()));
  replaceAll(text, "SCALED", "1");
  replaceAll(text, "NIBBLES", c.pairsColumns ? "1" : "0");
  replaceAll(text, "PARTS", number(c.bits == 4 ? 2 : 1));
  replaceAll(text, "MASK", number(c.bits == 4 ? 15 : 255));
  replaceAll(text, "TYPE", c.scaleType);
  return text;
}

/// The operands of a product, and the sums that a kernel made of them.
struct Product {
  WeightCase c;
  Numbers left, scale, offset, table;
  std::vector<char> packed;
  std::vector<float> sums;

  explicit Product(const WeightCase &c)
      : c(c), left(leftOf(c)), scale(Numbers::reals(scales(), c.scaleType, 2)),
        offset(Numbers::reals(scales(), c.scaleType, 3)),
        table(Numbers::reals(16, "f32", 5)),
        packed(c.panels() * c.steps() * 64 * 4), sums(c.m * c.n) {
    std::mt19937 random(4);
    for (char &byte : packed)
      byte = static_cast<char>(random());
  }

  static Numbers leftOf(const WeightCase &c) {
    if (c.left != Left::Bytes)
      return Numbers::reals(c.m * c.k, c.leftType, 1);
    Numbers numbers;
    for (double byte : Numbers(c.m * c.k, "i8", 1).values)
      numbers.append("f32", byte);
    return numbers;
  }

  size_t scales() const { return c.panels() * c.groups() * 64; }

  /// The place of the scale and the offset of a weight.
  int64_t at(int64_t n, int64_t k) const {
    return (n / 64 * c.groups() + k / c.depths()) * 64 + n % 64;
  }

  double weight(int64_t n, int64_t k) const {
    int64_t step = (n / 64 * c.steps() + k / c.stepDepths()) * 64;
    int64_t word =
        c.pairsColumns ? n % 64 / 8 * 8 + n % 4 * 2 + k / 4 % 2 : n % 64;
    auto byte = static_cast<uint8_t>(packed[(step + word) * 4 + k % 4]);
    int64_t isHigh = (c.pairsColumns ? n : k) / 4 % 2;
    int64_t integer = c.bits == 8 ? byte : byte >> (isHigh * 4) & 15;
    double number =
        c.hasTable ? table.values[integer] : double(integer - c.center());
    return number * scale.values[at(n, k)] + added(n, k);
  }

  double added(int64_t n, int64_t k) const {
    return c.hasOffset ? offset.values[at(n, k)] : 0;
  }

  /// Runs a kernel whose buffers all lie beside a guard page. False if this
  /// processor cannot run it.
  bool run(const KernelLibrary &library, const native::TargetInfo &target,
           native::GuardedMemory::Side side) {
    auto emulation = AmxEmulation::of(target);
    if (!native::runs(target) && !emulation)
      return false;
    Guarded x(left.bytes, side), q(packed, side), s(scale.bytes, side),
        o(offset.bytes, side), t(table.bytes, side);
    native::GuardedMemory result(sums.size() * sizeof(float), side);
    EXPECT_EQ(library.run("product",
                          {x.data(), q.data(), s.data(), o.data(), t.data(),
                           result.data()},
                          {}),
              0);
    EXPECT_TRUE(result.surroundingsAreIntact());
    std::memcpy(sums.data(), result.data(), result.size());
    return true;
  }

  /// The largest number of a scale; none if numbers are as exact as f32.
  double largestNumber() const {
    if (c.left == Left::Rounded)
      return 127;
    return std::string(c.leftType) == "f32" ? 0 : 32630;
  }

  /// How far each element of a row of the left operand may be rounded: half the
  /// distance of the numbers of its scale.
  std::vector<double> rounding(int64_t m) const {
    std::vector<double> found(c.k);
    // A scale has at most 256 depths, all in a group.
    int64_t most = std::min<int64_t>(c.depths(), 256);
    for (int64_t first = 0; largestNumber() && first < c.k; first += most) {
      int64_t end = std::min(first + most, c.k);
      double largest = 0;
      for (int64_t k = first; k < end; ++k)
        largest = std::max(largest, std::fabs(left.values[m * c.k + k]));
      std::fill(found.begin() + first, found.begin() + end,
                largest / largestNumber() / 2);
    }
    return found;
  }

  /// Compares each sum with f64. A sum's error grows with the sizes of its
  /// products, and with those of scaled integers that an offset cancels.
  void expectSums() const {
    constexpr double unitRoundoff = 0x1p-24;
    for (int64_t m = 0; m < c.m; ++m) {
      std::vector<double> moved = rounding(m);
      for (int64_t n = 0; n < c.n; ++n) {
        double exact = 0, size = 0, rounded = 0;
        for (int64_t k = 0; k < c.k; ++k) {
          double x = left.values[m * c.k + k], w = weight(n, k);
          exact += x * w;
          size += std::fabs(x) * (std::fabs(w) + 2 * std::fabs(added(n, k)));
          rounded += moved[k] * std::fabs(w);
        }
        ASSERT_LE(std::fabs(sums[m * c.n + n] - exact),
                  (8 + 2 * std::sqrt(double(c.k))) * unitRoundoff * size +
                      rounded * (1 + 0x1p-16))
            << m << ", " << n;
      }
    }
  }
};

class QuantizedTest : public testing::TestWithParam<TargetAndCase<WeightCase>> {
protected:
  const native::TargetInfo target =
      llvm::cantFail(native::TargetInfo::get(std::get<0>(GetParam())));
  const WeightCase c = std::get<1>(GetParam()).of(target);

  std::optional<KernelLibrary> compile() const {
    bool readsBytes = c.left != Left::Exact && target.dotsMixedBytes();
    return !c.hasTable && (c.m <= mostQuantizedRows || readsBytes)
               ? compileCase(vectorDigitsRow, textOf(c), target)
               : compileProduct(textOf(c), target);
  }
};

TEST_P(QuantizedTest, SumsAreAsExactAsOfF32) {
  auto library = compile();
  ASSERT_TRUE(library);
  for (auto side :
       {native::GuardedMemory::Side::End, native::GuardedMemory::Side::Begin}) {
    Product product(c);
    if (!product.run(*library, target, side))
      GTEST_SKIP() << "this processor cannot run the target's code";
    product.expectSums();
  }
}

TEST_P(QuantizedTest, TheMostSpecialPlanIsTheCheapest) {
  native::ParsedKernel parsed(textOf(c));
  expectFirstIsCheapest(parsed.function(), target);
}

TEST_P(QuantizedTest, RowsOfNoNumbersLeaveTheOthers) {
  Product product(c);
  if (c.m < 4 || c.left == Left::Bytes)
    GTEST_SKIP() << "needs four rows of floats";
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double largest = std::numeric_limits<float>::max();
  auto set = [&](int64_t at, double value) {
    product.left.set(at, c.leftType, value);
  };
  set(c.k / 2, infinity);
  set(2 * c.k - 1, std::nan(""));
  for (int64_t k = 0; k < c.k; ++k)
    set(2 * c.k + k, 0);
  set(2 * c.k, largest / 4096);
  auto library = compile();
  ASSERT_TRUE(library);
  if (!product.run(*library, target, native::GuardedMemory::Side::End))
    GTEST_SKIP() << "this processor cannot run the target's code";
  for (int64_t n = 0; n < c.n; ++n) {
    EXPECT_FALSE(std::isfinite(product.sums[n]) &&
                 product.weight(n, c.k / 2) != 0);
    EXPECT_TRUE(std::isnan(product.sums[c.n + n]));
  }
  // The other rows are compared; the first two have no exact sums.
  for (int64_t row : {0, 1})
    for (int64_t k = 0; k < c.k; ++k)
      set(row * c.k + k, 0);
  std::fill_n(product.sums.begin(), 2 * c.n, 0.0F);
  product.expectSums();
}

const WeightCase cases[] = {
    {"one", 1, 1, 32, 4, 32},
    {"row_of_bytes", 1, 130, 96, 8, 32},
    {"few_rows", 5, 70, 128, 4, 32, true},
    {"few_rows_of_bytes", 7, 70, 64, 8, 64, true, "f16"},
    {"rows_32", 32, 65, 256, 4, 64, false, "bf16"},
    {"rows_33", 33, 70, 64, 4, 32},
    {"rows_33_of_bytes", 33, 70, 64, 8, 32, true},
    {"rows_48", 48, 130, 96, 4, 32, true, "f16"},
    {"rows_129", 129, 64, 128, 4, 64, true},
    {"rows_129_of_bytes", 129, 40, 128, 8, 128, false, "f16"},
    {"one_scale", 40, 70, 130, 4, 0, true},
    {"one_scale_of_bytes", 40, 70, 50, 8, 0},
    {"short", 35, 20, 10, 8, 0, true},
    {"groups_of_16", 40, 33, 48, 4, 16},
    {"deep", 34, 33, 2048, 4, 128, true},
    {"deep_one_scale", 34, 33, 2050, 8, 0, true},
    {"blocks_of_depth", 50, 170, 256, 4, 32, true, "f32",
     "depth=64,panels_per_tile=3,rows_per_tile=32"},
    {"blocks_of_one_scale", 50, 40, 200, 8, 0, true, "f32", "depth=64"},
    {"rounded_row", 1, 130, 96, 4, 32, false, "f32", "", Left::Rounded},
    {"rounded_rows", 13, 70, 320, 8, 64, true, "f16", "", Left::Rounded},
    {"rounded_32", 32, 65, 256, 4, 64, false, "bf16", "", Left::Rounded},
    {"rounded_33", 33, 70, 64, 4, 32, true, "f32", "", Left::Rounded},
    {"rounded_95", 95, 200, 100, 8, 0, true, "f32", "", Left::Rounded},
    {"rounded_tiles", 301, 70, 1026, 8, 0, false, "f16", "", Left::Rounded},
    {"rounded_groups", 150, 70, 2048, 4, 32, true, "f16", "", Left::Rounded},
    {"rounded_short", 40, 20, 10, 4, 0, true, "f32", "", Left::Rounded},
    {"bytes_row", 1, 130, 96, 4, 32, true, "f32", "", Left::Bytes},
    {"bytes_rows", 13, 70, 320, 8, 64, true, "f16", "", Left::Bytes},
    {"bytes_33", 33, 70, 64, 4, 32, false, "f32", "", Left::Bytes},
    {"bytes_one_scale", 95, 200, 100, 8, 0, true, "f32", "", Left::Bytes},
    {"bytes_groups", 150, 70, 2048, 4, 32, true, "f16", "", Left::Bytes},
    {"bytes_short", 40, 20, 10, 4, 0, false, "f32", "", Left::Bytes},
    {"row_of_bf16", 1, 130, 96, 4, 32, true, "bf16", "", Left::Exact, false,
     "bf16"},
    {"rows_of_bf16", 7, 70, 256, 4, 64, false, "f32", "", Left::Exact, false,
     "bf16"},
    {"bf16_and_bytes", 3, 70, 130, 8, 0, true, "f32", "", Left::Exact, false,
     "bf16"},
    {"table_row", 1, 130, 96, 4, 32, false, "f32", "", Left::Exact, true},
    {"table_rows", 5, 70, 128, 4, 64, true, "bf16", "", Left::Exact, true},
    {"table_33", 33, 70, 64, 4, 32, false, "f16", "", Left::Exact, true},
    {"table_one_scale", 95, 200, 100, 4, 0, true, "f32", "", Left::Exact, true},
};

INSTANTIATE_TEST_SUITE_P(Cases, QuantizedTest,
                         testing::Combine(testing::Values("portable", "aarch64",
                                                          "neoverse-v1", "avx2",
                                                          "avx512vnni", "amx"),
                                          testing::ValuesIn(cases)),
                         caseName<WeightCase>);

/// Between two groups of depths the sums of a block are scaled: registers hold
/// those of each digit and the scaled ones.
TEST(QuantizedBlocking, SumsStayInRegisters) {
  for (const char *name : {"portable", "avx2", "avxvnni", "avx512vnni"})
    for (Left left : {Left::Exact, Left::Rounded})
      for (int64_t rows : {1, 5, 16, 31, 512}) {
        native::TargetInfo target =
            llvm::cantFail(native::TargetInfo::get(name));
        WeightCase c{"", rows, 576, 576, 4, 32};
        c.left = left;
        native::ParsedKernel parsed(textOf(c));
        std::string why;
        auto contraction = Contraction::find(parsed.function(), why);
        ASSERT_TRUE(contraction) << why;
        auto blocking = QuantizedBlocking::choose(
            *contraction, *QuantizedOperand::find(*contraction), target,
            QuantizedBlocking::Unit::Vectors, why);
        ASSERT_TRUE(blocking) << why;
        EXPECT_LE(blocking->rows * blocking->vectors *
                      (blocking->digits.count + 1),
                  target.isa().vectorRegisters())
            << name << ", " << rows << " rows";
      }
}

TEST(QuantizedPlans, SayWhyTheyRefuse) {
  auto refusal = [](const WeightCase &c, const char *target,
                    const PlanRow &row) {
    return refusalOf(row, textOf(c),
                     llvm::cantFail(native::TargetInfo::get(target)));
  };
  WeightCase two{"two", 2, 70, 128, 4, 32}, many{"many", 40, 70, 128, 4, 32};
  EXPECT_EQ(refusal(two, "avx512vnni", tileDigitsRow),
            "the target has no tile registers for digits");
  EXPECT_EQ(refusal(two, "amx", tileDigitsRow),
            "it has 2 rows; tile registers gain from 3 on");
  EXPECT_EQ(refusal(many, "amx", vectorDigitsRow),
            "floats cost less than digits of more than 32 rows");
  EXPECT_EQ(refusal(two, "amx", vectorDigitsRow), "");
}

} // namespace
