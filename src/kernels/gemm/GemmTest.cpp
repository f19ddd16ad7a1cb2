//===- GemmTest.cpp - matrix products against plain loops -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/kernels/AmxEmulation.h"
#include "support/kernels/CompiledCase.h"
#include "support/kernels/GemmCase.h"
#include "support/kernels/GemmNumbers.h"
#include "support/kernels/ParsedCase.h"

#include <cmath>
#include <deque>
#include <random>

using namespace anabranch;
using namespace anabranch::kernels;

namespace {

/// Shapes that every type of product is tested with.
const GemmCase shapes[] = {
    {"whole", 1, 24, 128, 64, "mk", "nk"},
    {"tails", 1, 37, 100, 70, "mk", "nk"},
    {"plain", 1, 37, 100, 70, "mk", "kn"},
    {"left_transposed", 1, 19, 50, 40, "km", "kn"},
    {"one_row", 1, 1, 192, 96, "mk", "kn"},
    {"one_row_weight", 1, 1, 100, 96, "mk", "nk"},
    {"few_rows_odd", 1, 7, 37, 1031, "mk", "nk"},
    {"batched", 3, 17, 33, 20, "bmk", "bnk"},
    {"batched_plain", 3, 17, 33, 20, "bmk", "bkn"},
    {"images", 2, 19, 50, 40, "mk", "bkn"},
    {"tiny", 1, 1, 1, 1, "mk", "nk"},
    {"many_rows", 2, 700, 20, 9, "bmk", "bkn"},
    {"dynamic", 2, 37, 100, 70, "bmk", "bnk", "f32", true},
    // The last rows of a tile are a block of fewer rows.
    {"dynamic_one_row", 1, 1, 100, 70, "bmk", "bnk", "f32", true},
    {"dynamic_two_rows", 1, 2, 100, 70, "bmk", "bnk", "f32", true},
    {"dynamic_four_rows", 1, 4, 100, 70, "bmk", "bkn", "f32", true},
    {"dynamic_more_rows", 2, 11, 100, 70, "bmk", "bnk", "f32", true},
    {"dynamic_empty_depth", 1, 3, 5, 0, "bmk", "bnk", "f32", true},
    {"dynamic_empty_rows", 1, 0, 5, 4, "bmk", "bnk", "f32", true},
};

/// These cases, and `shapes` with elements of this type.
std::vector<GemmCase> withShapes(const char *type,
                                 llvm::ArrayRef<GemmCase> cases) {
  std::vector<GemmCase> all(cases);
  for (GemmCase c : shapes) {
    c.type = type;
    all.push_back(c);
  }
  return all;
}

const GemmCase floatCases[] = {
    {"deep", 1, 20, 70, 1200, "mk", "nk"},
    {"few_rows_bf16", 1, 5, 37, 131, "mk", "nk", "bf16"},
    {"few_rows_f16", 2, 3, 70, 130, "bmk", "bnk", "f16"},
    {"in_place", 1, 8, 192, 600, "mk", "kn"},
    {"in_place_blocks", 1, 11, 192, 600, "mk", "kn"},
    // Few rows: depths that are no multiple of those at once, one part or
    // several, tiles with fewer columns, a left operand with a copy.
    {"row_sums", 1, 1, 320, 131, "mk", "kn"},
    {"row_sums_short", 1, 2, 80, 3, "mk", "kn"},
    {"row_sums_one_depth", 1, 1, 128, 1, "mk", "kn"},
    {"row_sums_parts", 1, 3, 4160, 257, "mk", "kn"},
    {"row_sums_batched", 3, 2, 192, 70, "bmk", "bkn"},
    {"row_sums_transposed", 1, 2, 64, 40, "km", "kn"},
    {"row_sums_tail", 1, 1, 323, 131, "mk", "kn"},
    {"row_sums_tail_of_parts", 1, 4, 4165, 257, "mk", "kn"},
    {"row_sums_tail_batched", 2, 2, 75, 40, "bmk", "bkn"},
    {"row_sums_tail_bf16", 1, 2, 581, 130, "mk", "kn", "bf16"},
    {"row_sums_tail_f16", 1, 1, 17, 129, "mk", "kn", "f16"},
    {"row_sums_wide", 1, 1, 20480, 9, "mk", "kn"},
    {"row_sums_bf16", 1, 2, 576, 130, "mk", "kn", "bf16"},
    {"row_sums_bf16_batched", 2, 1, 192, 67, "bmk", "bkn", "bf16"},
    {"row_sums_f16", 1, 2, 320, 129, "mk", "kn", "f16"},
    {"row_sums_f64", 1, 2, 192, 300, "mk", "kn", "f64"},
    {"images_small", 3, 30, 5, 40, "mk", "bkn"},
    {"images_bf16", 2, 19, 50, 41, "mk", "bkn", "bf16"},
    {"plain_half_panel", 1, 33, 40, 192, "mk", "kn"},
    {"bf16", 1, 21, 70, 50, "mk", "nk", "bf16"},
    {"f16", 1, 21, 70, 50, "mk", "kn", "f16"},
    // A tile has several panels.
    {"f16_wide", 1, 70, 1000, 41, "mk", "kn", "f16"},
    {"f16_wide_batched", 2, 50, 700, 600, "bmk", "bnk", "f16"},
    {"bf16_wide", 1, 70, 1000, 41, "mk", "kn", "bf16"},
    // A block has more rows than a row of the packed left operand has depths.
    {"bf16_many_rows", 1, 100, 70, 3, "mk", "nk", "bf16"},
    {"bf16_left_transposed", 1, 50, 70, 67, "km", "nk", "bf16"},
    {"bf16_dynamic", 2, 37, 100, 71, "bmk", "bnk", "bf16", true},
    {"bf16_live_row", 1, 1, 192, 131, "mk", "kn", "bf16"},
    {"bf16_deep", 1, 150, 70, 1201, "mk", "nk", "bf16"},
    {"f16_deep", 1, 150, 70, 1201, "mk", "nk", "f16"},
    {"f64", 1, 21, 70, 50, "mk", "nk", "f64"},
    // Vectors of 128 bits: a tile has fewer columns than other types have dots.
    {"f64_row", 1, 1, 70, 128, "mk", "nk", "f64"},
    {"dynamic_plain", 2, 5, 30, 900, "bmk", "bkn", "f32", true},
    {"panels", 1, 37, 100, 70, "mk", "nk", "f32", false, 48},
    {"panels_whole", 1, 24, 128, 64, "mk", "nk", "f32", false, 64},
    {"panels_deep", 1, 20, 70, 1201, "mk", "nk", "f32", false, 32},
    {"panels_one_row", 1, 1, 100, 1030, "mk", "nk", "f32", false, 64},
    {"panels_batched", 3, 17, 33, 21, "bmk", "bnk", "f32", false, 32},
    {"panels_one_batch", 1, 17, 33, 21, "bmk", "bnk", "f32", false, 32},
    {"panels_left_transposed", 1, 19, 50, 40, "km", "nk", "f32", false, 32},
    // The width is no multiple of a vector of 16.
    {"panels_narrow", 1, 13, 29, 31, "mk", "nk", "f32", false, 24},
    {"panels_f64", 1, 13, 29, 31, "mk", "nk", "f64", false, 16},
    {"panels_f16", 1, 21, 70, 51, "mk", "nk", "f16", false, 48},
    {"panels_bf16", 1, 21, 70, 51, "mk", "nk", "bf16", false, 48},
    {"pairs", 1, 21, 70, 50, "mk", "nk", "bf16", false, 64, 2},
    {"pairs_odd", 1, 21, 70, 51, "mk", "nk", "bf16", false, 48, 2},
    {"pairs_one_row", 1, 1, 100, 1031, "mk", "nk", "bf16", false, 64, 2},
    {"pairs_batched", 3, 7, 33, 21, "bmk", "bnk", "bf16", false, 32, 2},
    {"pairs_few_rows", 1, 3, 128, 131, "mk", "nk", "bf16", false, 64, 2},
    {"pairs_many_rows", 1, 100, 128, 768, "mk", "nk", "bf16", false, 32, 2},
    {"pairs_split_once", 1, 140, 100, 771, "mk", "nk", "bf16", false, 64, 2},
    {"f16_widened_once", 1, 140, 100, 771, "mk", "nk", "f16", false, 64},
    {"pairs_deep", 1, 20, 70, 1201, "mk", "nk", "bf16", false, 32, 2},
};

/// Products of bytes. Each set of instructions has code of its own.
const GemmCase int8Cases[] = {
    {"plain_whole", 1, 64, 64, 128, "mk", "kn", "i8"},
    {"deep", 1, 20, 70, 4500, "mk", "nk", "i8"},
    {"deep_plain", 1, 50, 70, 4503, "mk", "kn", "i8"},
    {"few_rows", 1, 8, 80, 512, "mk", "nk", "i8"},
    {"row_more", 1, 33, 40, 192, "mk", "kn", "i8"},
    {"dynamic_plain", 2, 5, 30, 4100, "bmk", "bkn", "i8", true},
    {"panels", 1, 37, 100, 72, "mk", "nk", "i8", false, 64, 4},
    {"panels_odd", 1, 37, 100, 71, "mk", "nk", "i8", false, 32, 4},
    {"panels_tail", 1, 70, 100, 140, "mk", "nk", "i8", false, 64, 4},
    {"panels_one_row", 1, 1, 100, 1032, "mk", "nk", "i8", false, 64, 4},
    {"panels_eight", 1, 8, 128, 2048, "mk", "nk", "i8", false, 64, 4},
    {"panels_deep", 1, 50, 70, 4508, "mk", "nk", "i8", false, 64, 4},
    {"panels_batched", 3, 17, 33, 21, "bmk", "bnk", "i8", false, 32, 4},
    {"panels_narrow", 1, 23, 29, 36, "mk", "nk", "i8", false, 24, 4},
};

/// Products of bf16 that end within an AMX register in all ways, or need
/// several blocks along some loop.
const GemmCase amxCases[] = {
    {"row", 1, 1, 64, 64, "mk", "nk", "bf16", false, 32, 2},
    {"row_stream", 1, 1, 70, 1031, "mk", "nk", "bf16", false, 32, 2},
    {"two_rows", 1, 2, 33, 100, "mk", "nk", "bf16", false, 32, 2},
    {"narrow", 1, 20, 5, 48, "mk", "nk", "bf16", false, 16, 2},
    {"one_panel", 1, 32, 16, 96, "mk", "nk", "bf16", false, 16, 2},
    {"wide_panels", 1, 40, 200, 70, "mk", "nk", "bf16", false, 64, 2},
    {"odd_panels", 1, 40, 100, 66, "mk", "nk", "bf16", false, 48, 2},
    {"row_more", 1, 33, 64, 31, "mk", "nk", "bf16", false, 32, 2},
    {"one_depth", 1, 17, 40, 1, "mk", "nk", "bf16"},
    {"register", 1, 16, 32, 32, "mk", "kn", "bf16"},
    {"blocks", 1, 100, 100, 1300, "mk", "nk", "bf16", false, 32, 2},
    {"blocks_live", 1, 70, 100, 1301, "mk", "kn", "bf16"},
    {"groups", 1, 300, 70, 2000, "mk", "nk", "bf16", false, 32, 2},
    {"groups_live", 1, 290, 70, 2001, "mk", "nk", "bf16"},
    {"many_panels", 1, 40, 2100, 64, "mk", "nk", "bf16", false, 32, 2},
    {"turned_left", 1, 35, 40, 70, "km", "nk", "bf16"},
    {"heads", 4, 50, 40, 64, "mbk", "bnk", "bf16"},
    {"heads_few", 4, 3, 40, 64, "bmk", "bkn", "bf16"},
    {"dynamic", 2, 37, 100, 70, "bmk", "bnk", "bf16", true},
    {"dynamic_row", 1, 1, 30, 900, "bmk", "bkn", "bf16", true},
    {"dynamic_empty_depth", 1, 3, 5, 0, "bmk", "bnk", "bf16", true},
    {"dynamic_empty_rows", 1, 0, 5, 4, "bmk", "bnk", "bf16", true},
};

/// Products of random sizes of types that AMX multiplies.
std::vector<GemmCase> randomAmxCases() {
  static std::deque<std::string> names;
  std::mt19937 random(7);
  auto below = [&](int64_t end) { return int64_t(random() % end); };
  std::vector<GemmCase> found;
  for (int i = 0; i < 24; ++i) {
    names.push_back("random" + std::to_string(i));
    bool bytes = below(3) == 0, panels = below(2) == 0;
    bool batched = below(3) == 0;
    GemmCase c{names.back().c_str(),  batched ? 1 + below(3) : 1,
               1 + below(80),         1 + below(100),
               1 + below(300),        batched ? "bmk" : "mk",
               batched ? "bnk" : "nk"};
    c.type = bytes ? "i8" : "bf16";
    if (panels) {
      c.width = 32 * (1 + below(2));
      c.kPack = bytes ? 4 : 2;
    } else if (below(2)) {
      c.right = batched ? "bkn" : "kn";
    }
    found.push_back(c);
  }
  return found;
}

/// Products of bf16 in tiles of several panels and blocks of the depth. A part
/// of each panel's epilogue runs during the next panel.
std::vector<GemmCase> panelCases() {
  static std::deque<std::string> texts;
  std::mt19937 random(13);
  auto below = [&](int64_t end) { return int64_t(random() % end); };
  std::vector<GemmCase> found;
  for (int64_t rows : {1, 16, 31, 33, 64, 65, 95, 97, 150})
    for (int64_t panels : {2, 3, 4}) {
      BlockingParameters given;
      given.plan = "tile_blocks";
      given.depth = 32 * (1 + below(3));
      given.panelsPerTile = panels;
      given.rowsPerTile = below(2) ? 32 * (1 + below(3)) : 160;
      const char *name = texts
                             .emplace_back("rows" + std::to_string(rows) +
                                           "_panels" + std::to_string(panels))
                             .c_str();
      const char *text = texts.emplace_back(given.text()).c_str();
      GemmCase c{name,           1,    rows, 1 + below(200),
                 1 + below(300), "mk", "nk", "bf16"};
      c.width = 32;
      c.kPack = 2;
      c.blocking = text;
      found.push_back(c);
    }
  return found;
}

/// Products of random sizes with random blockings, which need not fit.
std::vector<GemmCase> givenCases() {
  static std::deque<std::string> texts;
  std::mt19937 random(11);
  auto below = [&](int64_t end) { return int64_t(random() % end); };
  auto anything = [&] {
    return below(3) ? below(200) : below(int64_t(1) << 31);
  };
  std::vector<GemmCase> found;
  for (int i = 0; i < 48; ++i) {
    BlockingParameters given;
    if (below(3) == 0)
      given.plan = "vector_blocks";
    if (below(2)) {
      given.rows = below(15);
      given.vectors = below(5);
    }
    for (auto *part : {&given.depth, &given.rowsPerTile, &given.panelsPerTile,
                       &given.bytesAhead})
      if (below(2))
        *part = anything();
    const char *name = texts.emplace_back("given" + std::to_string(i)).c_str();
    const char *text = texts.emplace_back(given.text()).c_str();
    const char *right = below(2) ? "nk" : "kn";
    const char *types[] = {"f32", "bf16", "i8"};
    GemmCase c{name,           1,    1 + below(90), 1 + below(150),
               1 + below(700), "mk", right};
    c.type = types[below(3)];
    c.blocking = text;
    if (right == std::string("nk") && below(2)) {
      c.width = 32;
      c.kPack = c.type == std::string("f32") ? 1 : c.type[0] == 'i' ? 4 : 2;
    }
    found.push_back(c);
  }
  return found;
}

/// Products of other integers.
const GemmCase integerCases[] = {
    {"u8", 1, 21, 70, 51, "mk", "nk", "u8"},
    {"u8_plain", 1, 3, 70, 51, "mk", "kn", "u8"},
    {"i32", 1, 21, 70, 51, "mk", "nk", "i32"},
    {"i32_in_place", 1, 8, 192, 600, "mk", "kn", "i32"},
    {"i32_panels", 1, 21, 70, 51, "mk", "nk", "i32", false, 64},
    {"i32_few_rows", 1, 2, 70, 51, "mk", "nk", "i32"},
    {"i64", 2, 21, 70, 51, "bmk", "bkn", "i64"},
    {"i64_row", 1, 1, 70, 51, "mk", "nk", "i64"},
};

/// Cases of a 16-bit dtype. Their code depends on the processor's features.
std::vector<GemmCase> casesOf(const std::string &type) {
  std::vector<GemmCase> found;
  for (const GemmCase &c : floatCases)
    if (c.type == type)
      found.push_back(c);
  return found;
}

class GemmTest : public testing::TestWithParam<TargetAndCase<GemmCase>> {};

TEST_P(GemmTest, EqualsPlainLoops) {
  auto [targetName, c] = GetParam();
  native::TargetInfo target =
      llvm::cantFail(native::TargetInfo::get(targetName));
  auto library = compileProduct(kernelText(c), target);
  ASSERT_TRUE(library);
  auto emulation = AmxEmulation::of(target);
  if (!native::runs(target) && !emulation)
    GTEST_SKIP() << "this processor lacks " << targetName;
  std::string type = c.type, sum = sumType(c);
  Numbers left(count(c, c.left), type, 1), right(count(c, c.right), type, 2);
  Numbers bias(c.n, sum, 3),
      result(count(c, resultLetters(c)), resultType(c), 4);
  std::vector<int64_t> sizes;
  if (c.dynamic) {
    for (const std::string &letters :
         {std::string(c.left), std::string(c.right), std::string("n"),
          resultLetters(c)})
      for (char letter : letters)
        sizes.push_back(sizeOf(c, letter));
    sizes.insert(sizes.end(), {c.batch, c.m, c.n});
  }
  Guarded leftMemory(left.bytes), rightMemory(rightBytes(c, right));
  Guarded biasMemory(bias.bytes), resultMemory(result.bytes);
  ASSERT_EQ(library->run("product",
                         {leftMemory.data(), rightMemory.data(),
                          biasMemory.data(), resultMemory.data()},
                         sizes),
            0);
  if (emulation) {
    bool usesTiles = ParsedCase(c).plan(target).usesTileRegisters();
    EXPECT_EQ(AmxEmulation::products() > 0, usesTiles && c.m * c.k > 0);
    EXPECT_EQ(AmxEmulation::pairs() > 0,
              type == "bf16" && AmxEmulation::products() > 0);
    EXPECT_FALSE(AmxEmulation::inUse());
  }
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t m = 0; m < c.m; ++m)
      for (int64_t n = 0; n < c.n; ++n) {
        double expected = 0;
        for (int64_t k = 0; k < c.k; ++k)
          expected += left.values[leftOffset(c, b, m, k)] *
                      right.values[offset(c, c.right, b, m, n, k)];
        expected = std::max(0.0, expected + bias.values[n]);
        double actual =
            read(resultMemory.data(), offset(c, resultLetters(c), b, m, n, 0),
                 resultType(c));
        double tolerance = type == "bf16" ? 0.01 : type == "f16" ? 1e-3 : 0;
        ASSERT_NEAR(actual, expected, tolerance * std::fabs(expected))
            << c.name << " at " << b << ", " << m << ", " << n;
      }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, GemmTest,
    testing::Combine(testing::Values("portable", "aarch64", "neoverse-v1",
                                     "avx2", "host"),
                     testing::ValuesIn(withShapes("f32", floatCases))),
    caseName<GemmCase>);
INSTANTIATE_TEST_SUITE_P(
    Bytes, GemmTest,
    testing::Combine(testing::Values("portable", "aarch64", "neoverse-v1",
                                     "avx2", "avxvnni", "avxvnniint8", "avx512",
                                     "avx512vnni", "amx", "host"),
                     testing::ValuesIn(withShapes("i8", int8Cases))),
    caseName<GemmCase>);
INSTANTIATE_TEST_SUITE_P(Integers, GemmTest,
                         testing::Combine(testing::Values("portable", "aarch64",
                                                          "neoverse-v1", "avx2",
                                                          "host"),
                                          testing::ValuesIn(integerCases)),
                         caseName<GemmCase>);
INSTANTIATE_TEST_SUITE_P(
    Bf16, GemmTest,
    testing::Combine(testing::Values("portable", "aarch64", "neoverse-v1",
                                     "avx512bf16", "avx512", "avx512fp16",
                                     "amx"),
                     testing::ValuesIn(casesOf("bf16"))),
    caseName<GemmCase>);
INSTANTIATE_TEST_SUITE_P(
    F16, GemmTest,
    testing::Combine(testing::Values("portable", "aarch64", "neoverse-v1",
                                     "avx512", "avx512fp16"),
                     testing::ValuesIn(casesOf("f16"))),
    caseName<GemmCase>);

ChosenProduct planOn(const GemmCase &c, const char *target) {
  return ParsedCase(c).plan(llvm::cantFail(native::TargetInfo::get(target)));
}

INSTANTIATE_TEST_SUITE_P(Amx, GemmTest,
                         testing::Combine(testing::Values("amx"),
                                          testing::ValuesIn(amxCases)),
                         caseName<GemmCase>);
INSTANTIATE_TEST_SUITE_P(RandomAmx, GemmTest,
                         testing::Combine(testing::Values("amx"),
                                          testing::ValuesIn(randomAmxCases())),
                         caseName<GemmCase>);
INSTANTIATE_TEST_SUITE_P(Panels, GemmTest,
                         testing::Combine(testing::Values("amx"),
                                          testing::ValuesIn(panelCases())),
                         caseName<GemmCase>);
INSTANTIATE_TEST_SUITE_P(Given, GemmTest,
                         testing::Combine(testing::Values("avx2", "avx512",
                                                          "amx"),
                                          testing::ValuesIn(givenCases())),
                         caseName<GemmCase>);

/// The operands of one matrix product, and memory for the result.
struct MatrixNumbers {
  const Numbers &left, &right, &bias, &result;
};

/// Runs a kernel whose result is bf16, and compares it with plain loops.
void expectProduct(const KernelLibrary &library, const GemmCase &c,
                   const MatrixNumbers &numbers,
                   const std::vector<int64_t> &sizes) {
  Guarded left(numbers.left.bytes), right(rightBytes(c, numbers.right));
  Guarded bias(numbers.bias.bytes), result(numbers.result.bytes);
  ASSERT_EQ(library.run("product",
                        {left.data(), right.data(), bias.data(), result.data()},
                        sizes),
            0);
  for (int64_t m = 0; m < c.m; ++m)
    for (int64_t n = 0; n < c.n; ++n) {
      double expected = numbers.bias.values[n];
      for (int64_t k = 0; k < c.k; ++k)
        expected += numbers.left.values[m * c.k + k] *
                    numbers.right.values[n * c.k + k];
      expected = std::max(0.0, expected);
      ASSERT_NEAR(read(result.data(), m * c.n + n, "bf16"), expected,
                  0.01 * std::fabs(expected))
          << m << ", " << n;
    }
}

/// Does the same for code with AMX, emulated on a processor without it. The
/// left operand has elements of `leftType`.
void expectAmxProduct(const std::string &text, const GemmCase &c,
                      const char *leftType, const std::vector<int64_t> &sizes) {
  native::TargetInfo target = llvm::cantFail(native::TargetInfo::get("amx"));
  auto library = KernelLibrary::fromText(text, target);
  ASSERT_TRUE(bool(library)) << llvm::toString(library.takeError()) << text;
  auto emulation = AmxEmulation::of(target);
  if (!native::runs(target) && !emulation)
    GTEST_SKIP();
  Numbers left(c.m * c.k, leftType, 1), right(c.n * c.k, "bf16", 2);
  Numbers bias(c.n, "f32", 3), result(c.m * c.n, "bf16", 4);
  expectProduct(*library, c, {left, right, bias, result}, sizes);
  if (emulation)
    EXPECT_GT(AmxEmulation::pairs(), 0);
}

/// The kernel casts its left operand to bf16.
TEST(AmxProduct, CastsItsLeftOperand) {
  GemmCase c{"", 1, 45, 70, 75, "mk", "nk", "bf16", false, 32, 2};
  std::string text = kernelText(c);
  replaceAll(text, "@product(%left: tensor<45x75xbf16>",
             "@product(%wide: tensor<45x75xf32>");
  replaceAll(text, "%zero = arith.constant 0.0 : f32", R"mlir(
  %zero = arith.constant 0.0 : f32
  %cast = tensor.empty() : tensor<45x75xbf16>
  %left = linalg.generic {
      indexing_maps = [affine_map<(a, b) -> (a, b)>,
                       affine_map<(a, b) -> (a, b)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%wide : tensor<45x75xf32>) outs(%cast : tensor<45x75xbf16>) {
  ^bb0(%x: f32, %o: bf16):
    %y = arith.truncf %x : f32 to bf16
    linalg.yield %y : bf16
  } -> tensor<45x75xbf16>)mlir");
  expectAmxProduct(text, c, "f32", {});
}

/// Rows of a symbolic number of sequences are in the order of their loops.
TEST(AmxProduct, ReadsRowsOfSeveralLoopsInPlace) {
  native::TargetInfo target = llvm::cantFail(native::TargetInfo::get("amx"));
  GemmCase c{"", 1, 45, 70, 75, "mk", "nk", "bf16"};
  std::string text = kernelText(c);
  replaceAll(text, "45x", "?x15x");
  replaceAll(text, "(m, n, k)", "(s, m, n, k)");
  replaceAll(text, "-> (m, k)", "-> (s, m, k)");
  replaceAll(text, "-> (m, n)", "-> (s, m, n)");
  replaceAll(text, "(m, n) ->", "(s, m, n) ->");
  replaceAll(text, R"(["parallel", )", R"(["parallel", "parallel", )");
  replaceAll(text, "%bias: tensor<70xf32> )",
             "%bias: tensor<70xf32>, %count: index)");
  replaceAll(text, "tensor.empty()", "tensor.empty(%count)");
  native::ParsedKernel parsed(text);
  ASSERT_TRUE(bool(parsed)) << text;
  ChosenProduct plan(parsed.function(), target);
  EXPECT_EQ(plan.name(), "tile_blocks");
  EXPECT_FALSE(plan.layout.left.isCopied());
  expectAmxProduct(text, c, "bf16", {3, 3, 3});
}

/// A product whose rows lie in runs, one for each head of attention.
GemmCase headsCase(const char *name, int64_t heads, int64_t rows, int64_t size,
                   const char *type, int64_t columns = 70) {
  GemmCase c{name, 1, rows, columns, heads * size, "mk", "nk", type};
  c.heads = heads;
  return c;
}

std::vector<GemmCase> headsCases(llvm::ArrayRef<const char *> types) {
  static std::deque<std::string> names;
  std::vector<GemmCase> found;
  for (const char *type : types) {
    auto add = [&](const char *name, int64_t heads, int64_t rows, int64_t size,
                   int64_t columns = 70) {
      names.push_back(std::string(type) + "_" + name);
      found.push_back(
          headsCase(names.back().c_str(), heads, rows, size, type, columns));
    };
    add("heads", 3, 45, 64);
    add("short_heads", 5, 37, 24);
    add("odd_heads", 4, 19, 33);
    add("blocks_of_heads", 12, 70, 80);
    add("few_rows", 9, 5, 64, 192);
    add("one_row", 2, 1, 64);
    add("several_tiles", 2, 300, 32);
  }
  return found;
}

INSTANTIATE_TEST_SUITE_P(
    Heads, GemmTest,
    testing::Combine(testing::Values("portable", "aarch64", "neoverse-v1",
                                     "avx2", "host"),
                     testing::ValuesIn(headsCases({"f32", "f64"}))),
    caseName<GemmCase>);
INSTANTIATE_TEST_SUITE_P(
    HeadsOfWords, GemmTest,
    testing::Combine(testing::Values("portable", "aarch64", "neoverse-v1",
                                     "avx2", "avx512", "avx512vnni",
                                     "avx512bf16", "amx"),
                     testing::ValuesIn(headsCases({"bf16", "f16", "i8"}))),
    caseName<GemmCase>);

TEST(ProductPlans, ReadHeadsInPlace) {
  struct {
    const char *target, *type;
    int64_t size, run;
  } cases[] = {
      {"avx2", "f32", 64, 64},        {"avx512", "f64", 32, 32},
      {"avx512bf16", "bf16", 64, 32}, {"avx512vnni", "i8", 64, 16},
      {"avx512", "f32", 8, 0},       // too short
      {"avx512bf16", "bf16", 33, 0}, // half a pair
  };
  for (const auto &[target, type, size, run] : cases) {
    ChosenProduct plan = planOn(headsCase("", 6, 45, size, type), target);
    EXPECT_EQ(plan.layout.left.run, run) << target << " " << type;
    EXPECT_EQ(plan.layout.left.isCopied(), run == 0) << target << " " << type;
    if (run)
      EXPECT_EQ(plan.layout.tiling.depth % size, 0) << target << " " << type;
  }
}

TEST(AmxProduct, ReadsHeadsInPlace) {
  ChosenProduct plan = planOn(headsCase("", 3, 45, 64, "bf16"), "amx");
  EXPECT_EQ(plan.name(), "tile_blocks");
  EXPECT_FALSE(plan.layout.left.isCopied());
}

/// Compares the emulated instruction with its definition: separate sums of even
/// and of odd elements, denormals as zeros.
TEST(AmxEmulation, MultipliesPairsInTheProcessorsOrder) {
  float large = 0x1p100F, small = 0x1p-100F;
  EXPECT_EQ(AmxEmulation::dotOfPairs({large, 1, -large, 1}, {1, 1, 1, 1}, 0),
            2.0F);
  EXPECT_EQ(AmxEmulation::dotOfPairs({1, large, 1, -large}, {1, 1, 1, 1}, 3),
            5.0F);
  EXPECT_EQ(AmxEmulation::dotOfPairs({small, 0}, {0x1p-40F, 0}, 0), 0.0F);
  EXPECT_EQ(AmxEmulation::dotOfPairs({0x1p-130F, 0}, {0x1p100F, 0}, 0), 0.0F);
  EXPECT_EQ(AmxEmulation::dotOfPairs({1, 0x1p-24F}, {1, 1}, 0), 1.0F);
  EXPECT_EQ(AmxEmulation::dotOfPairs({1, 1.5F * 0x1p-24F}, {1, 1}, 0),
            1 + 0x1p-23F);
}

/// Types and cost decide whether AMX computes a product.
TEST(ProductPlans, ChooseAmxWhereItExistsAndPays) {
  struct Choice {
    GemmCase product;
    bool usesTiles;
  };
  const Choice choices[] = {
      {{"prefill", 1, 512, 3072, 768, "mk", "nk", "bf16", false, 32, 2}, true},
      {{"decode", 1, 1, 3072, 768, "mk", "nk", "bf16", false, 32, 2}, true},
      {{"live", 1, 512, 3072, 768, "mk", "nk", "bf16"}, true},
      {{"bytes", 1, 512, 3072, 768, "mk", "nk", "i8", false, 32, 4}, true},
      {{"symbolic", 2, 37, 100, 70, "bmk", "bnk", "bf16", true}, true},
      // Dot products read the weight in place.
      {{"live_row", 1, 1, 3072, 768, "mk", "nk", "bf16"}, false},
      {{"live_row_bytes", 1, 1, 3072, 768, "mk", "nk", "i8"}, false},
      // Configuring the registers would take longer than the product.
      {{"tiny", 1, 1, 16, 16, "mk", "kn", "bf16"}, false},
      // AMX multiplies parts of floats, which are copied first.
      {{"f16", 1, 512, 3072, 768, "mk", "nk", "f16"}, true},
      {{"f32", 1, 512, 3072, 768, "mk", "nk"}, true},
      {{"f32_panels", 1, 128, 3072, 768, "mk", "nk", "f32", false, 32}, true},
      // Transposing a live weight costs more than the products of 128 rows
      // gain.
      {{"f32_live", 1, 128, 3072, 768, "mk", "nk"}, false},
      {{"f32_columns", 1, 128, 3072, 768, "mk", "kn"}, true},
      {{"f32_few_rows", 1, 8, 3072, 768, "mk", "nk"}, false},
      {{"f32_symbolic", 2, 37, 100, 70, "bmk", "bnk", "f32", true}, false},
      {{"u8", 1, 512, 3072, 768, "mk", "nk", "u8"}, false},
  };
  for (const auto &[product, usesTiles] : choices) {
    EXPECT_EQ(planOn(product, "sapphirerapids").usesTileRegisters(), usesTiles)
        << product.name;
    for (const char *target : {"znver4", "znver5", "alderlake", "haswell"})
      EXPECT_FALSE(planOn(product, target).usesTileRegisters())
          << target << " " << product.name;
  }
}

/// The index of a batch of one is a number, not a loop.
TEST(Contraction, SeesPanelsOfEachBatch) {
  for (int64_t batch : {1, 3}) {
    ParsedCase floats(
        GemmCase{"", batch, 17, 64, 32, "bmk", "bnk", "f32", false, 32});
    ParsedCase pairs(
        GemmCase{"", batch, 17, 64, 32, "bmk", "bnk", "bf16", false, 32, 2});
    for (const ParsedCase *c : {&floats, &pairs}) {
      ASSERT_TRUE(c->found);
      EXPECT_TRUE(c->found->right.panels) << batch;
    }
  }
}

/// How a right operand gets to the micro-kernel.
TEST(ProductPlans, ReadPanelsInPlace) {
  for (const char *name : {"avx2", "avx512", "avx512bf16"})
    for (const GemmCase &c : floatCases) {
      if (c.width == 0)
        continue;
      native::TargetInfo target = targetOf(name);
      ProductLayout layout = ParsedCase(c).plan(target).layout;
      bool isBf16 = std::string(c.type) == "bf16";
      int64_t lanes =
          target.isa().vectorBytes() / (std::string(c.type) == "f64" ? 8 : 4);
      bool isDot = layout.word.product.pairs == WordProduct::Pairs::Dot;
      // For many rows, panels are widened once.
      bool once = c.m > 96 && std::string(c.type) != "f32" && !isDot;
      bool fits = c.width % lanes == 0 &&
                  (isDot ? c.kPack == 2 : c.kPack <= (isBf16 ? 2 : 1)) && !once;
      EXPECT_EQ(layout.right.form == RightAccess::Form::Panels, fits)
          << name << " " << c.name;
    }
}

} // namespace
