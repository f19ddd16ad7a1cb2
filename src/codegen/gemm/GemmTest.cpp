//===- GemmTest.cpp - matrix products against plain loops -----------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/gemm/GemmBlocking.h"
#include "codegen/gemm/GemmKernel.h"
#include "ir/Anabranch.h"
#include "mlir/Parser/Parser.h"
#include "support/codegen/AmxEmulation.h"
#include "support/codegen/GemmCase.h"
#include "support/codegen/GuardedMemory.h"
#include "support/codegen/KernelLibrary.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <random>

using namespace anabranch::codegen;

namespace {

/// Numbers of a dtype as bytes, and what they are exactly.
struct Numbers {
  std::vector<char> bytes;
  std::vector<double> values;

  Numbers(size_t count, const std::string &type, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> eighths(-16, 16);
    std::uniform_int_distribution<int> bytes(type == "u8" ? 0 : -128,
                                             type == "u8" ? 255 : 127);
    bool isInteger = type[0] == 'i' || type[0] == 'u';
    for (size_t i = 0; i < count; ++i) {
      // Exact in every dtype, with the largest bytes among the first.
      double value = eighths(random) / 8.0;
      if (isInteger)
        value = i < 4 ? bytes.min() : bytes(random);
      values.push_back(value);
      append(type, value);
    }
  }
  void append(const std::string &type, double value) {
    char buffer[8];
    size_t size = 4;
    float single = static_cast<float>(value);
    if (type == "f64") {
      std::memcpy(buffer, &value, size = 8);
    } else if (type == "f32") {
      std::memcpy(buffer, &single, 4);
    } else if (type == "i64") {
      auto integer = static_cast<int64_t>(value);
      std::memcpy(buffer, &integer, size = 8);
    } else if (type[0] == 'i' || type[0] == 'u') {
      auto integer = static_cast<int32_t>(value);
      std::memcpy(buffer, &integer, size = type == "i32" ? 4 : 1);
    } else if (type == "bf16") {
      std::memcpy(buffer, reinterpret_cast<char *>(&single) + 2, size = 2);
    } else {
      _Float16 half = static_cast<_Float16>(value);
      std::memcpy(buffer, &half, size = 2);
    }
    bytes.insert(bytes.end(), buffer, buffer + size);
  }
};

/// A copy whose end is followed by a page that nobody may touch.
struct Guarded : GuardedMemory {
  explicit Guarded(const std::vector<char> &bytes)
      : GuardedMemory(bytes.size(), Side::End) {
    std::memcpy(data(), bytes.data(), size());
  }
};

double read(const char *bytes, size_t i, const std::string &type) {
  if (type == "f64")
    return reinterpret_cast<const double *>(bytes)[i];
  if (type == "f32")
    return reinterpret_cast<const float *>(bytes)[i];
  if (type == "i32")
    return reinterpret_cast<const int32_t *>(bytes)[i];
  if (type == "i64")
    return double(reinterpret_cast<const int64_t *>(bytes)[i]);
  if (type == "f16")
    return static_cast<double>(reinterpret_cast<const _Float16 *>(bytes)[i]);
  uint32_t bits = uint32_t(reinterpret_cast<const uint16_t *>(bytes)[i]) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

size_t offset(const GemmCase &c, const std::string &letters, int64_t b,
              int64_t m, int64_t n, int64_t k) {
  size_t at = 0;
  for (char letter : letters) {
    int64_t position = letter == 'b'   ? b
                       : letter == 'm' ? m
                       : letter == 'n' ? n
                                       : k;
    at = at * sizeOf(c, letter) + position;
  }
  return at;
}

size_t count(const GemmCase &c, const std::string &letters) {
  size_t product = 1;
  for (char letter : letters)
    product *= sizeOf(c, letter);
  return product;
}

/// The right operand as it lies in memory.
std::vector<char> rightBytes(const GemmCase &c, const Numbers &right) {
  if (c.width == 0)
    return right.bytes;
  size_t bytes = right.bytes.size() / right.values.size();
  std::vector<char> packed(c.batch * c.panels() * c.words() * c.width *
                           c.kPack * bytes);
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t n = 0; n < c.n; ++n)
      for (int64_t k = 0; k < c.k; ++k) {
        int64_t panel = b * c.panels() + n / c.width;
        int64_t row = panel * c.words() + k / c.kPack;
        int64_t at = (row * c.width + n % c.width) * c.kPack + k % c.kPack;
        std::memcpy(&packed[at * bytes],
                    &right.bytes[offset(c, c.right, b, 0, n, k) * bytes],
                    bytes);
      }
  return packed;
}

const GemmCase cases[] = {
    {"whole", 1, 24, 128, 64, "mk", "nk"},
    {"tails", 1, 37, 100, 70, "mk", "nk"},
    {"plain", 1, 37, 100, 70, "mk", "kn"},
    {"deep", 1, 20, 70, 1200, "mk", "nk"},
    {"left_transposed", 1, 19, 50, 40, "km", "kn"},
    {"one_row", 1, 1, 192, 96, "mk", "kn"},
    {"one_row_weight", 1, 1, 100, 96, "mk", "nk"},
    {"few_rows_odd", 1, 7, 37, 1031, "mk", "nk"},
    {"few_rows_bf16", 1, 5, 37, 131, "mk", "nk", "bf16"},
    {"few_rows_f16", 2, 3, 70, 130, "bmk", "bnk", "f16"},
    {"in_place", 1, 8, 192, 600, "mk", "kn"},
    {"batched", 3, 17, 33, 20, "bmk", "bnk"},
    {"batched_plain", 3, 17, 33, 20, "bmk", "bkn"},
    {"images", 2, 19, 50, 40, "mk", "bkn"},
    {"images_small", 3, 30, 5, 40, "mk", "bkn"},
    {"images_bf16", 2, 19, 50, 41, "mk", "bkn", "bf16"},
    {"plain_half_panel", 1, 33, 40, 192, "mk", "kn"},
    {"tiny", 1, 1, 1, 1, "mk", "nk"},
    {"many_rows", 2, 700, 20, 9, "bmk", "bkn"},
    {"bf16", 1, 21, 70, 50, "mk", "nk", "bf16"},
    {"f16", 1, 21, 70, 50, "mk", "kn", "f16"},
    // Several panels in a tile.
    {"f16_wide", 1, 70, 1000, 41, "mk", "kn", "f16"},
    {"f16_wide_batched", 2, 50, 700, 600, "bmk", "bnk", "f16"},
    {"bf16_wide", 1, 70, 1000, 41, "mk", "kn", "bf16"},
    {"f64", 1, 21, 70, 50, "mk", "nk", "f64"},
    {"dynamic", 2, 37, 100, 70, "bmk", "bnk", "f32", true},
    {"dynamic_plain", 2, 5, 30, 900, "bmk", "bkn", "f32", true},
    {"dynamic_empty_depth", 1, 3, 5, 0, "bmk", "bnk", "f32", true},
    {"dynamic_empty_rows", 1, 0, 5, 4, "bmk", "bnk", "f32", true},
    {"panels", 1, 37, 100, 70, "mk", "nk", "f32", false, 48},
    {"panels_whole", 1, 24, 128, 64, "mk", "nk", "f32", false, 64},
    {"panels_deep", 1, 20, 70, 1201, "mk", "nk", "f32", false, 32},
    {"panels_one_row", 1, 1, 100, 1030, "mk", "nk", "f32", false, 64},
    {"panels_batched", 3, 17, 33, 21, "bmk", "bnk", "f32", false, 32},
    {"panels_left_transposed", 1, 19, 50, 40, "km", "nk", "f32", false, 32},
    // No multiple of a vector of 16.
    {"panels_narrow", 1, 13, 29, 31, "mk", "nk", "f32", false, 24},
    {"panels_f64", 1, 13, 29, 31, "mk", "nk", "f64", false, 16},
    {"panels_f16", 1, 21, 70, 51, "mk", "nk", "f16", false, 48},
    {"panels_bf16", 1, 21, 70, 51, "mk", "nk", "bf16", false, 48},
    {"pairs", 1, 21, 70, 50, "mk", "nk", "bf16", false, 64, 2},
    {"pairs_odd", 1, 21, 70, 51, "mk", "nk", "bf16", false, 48, 2},
    {"pairs_one_row", 1, 1, 100, 1031, "mk", "nk", "bf16", false, 64, 2},
    {"pairs_batched", 3, 7, 33, 21, "bmk", "bnk", "bf16", false, 32, 2},
    {"pairs_deep", 1, 20, 70, 1201, "mk", "nk", "bf16", false, 32, 2},
};

/// Products of bytes, which have code of their own for each set of
/// instructions.
const GemmCase int8Cases[] = {
    {"whole", 1, 24, 128, 64, "mk", "nk", "i8"},
    {"tails", 1, 37, 100, 70, "mk", "nk", "i8"},
    {"plain", 1, 37, 100, 70, "mk", "kn", "i8"},
    {"plain_whole", 1, 64, 64, 128, "mk", "kn", "i8"},
    {"deep", 1, 20, 70, 4500, "mk", "nk", "i8"},
    {"deep_plain", 1, 50, 70, 4503, "mk", "kn", "i8"},
    {"left_transposed", 1, 19, 50, 40, "km", "kn", "i8"},
    {"one_row", 1, 1, 192, 96, "mk", "kn", "i8"},
    {"one_row_weight", 1, 1, 100, 96, "mk", "nk", "i8"},
    {"few_rows_odd", 1, 7, 37, 1031, "mk", "nk", "i8"},
    {"few_rows", 1, 8, 80, 512, "mk", "nk", "i8"},
    {"batched", 3, 17, 33, 20, "bmk", "bnk", "i8"},
    {"batched_plain", 3, 17, 33, 20, "bmk", "bkn", "i8"},
    {"images", 2, 19, 50, 40, "mk", "bkn", "i8"},
    {"tiny", 1, 1, 1, 1, "mk", "nk", "i8"},
    {"many_rows", 2, 700, 20, 9, "bmk", "bkn", "i8"},
    {"row_more", 1, 33, 40, 192, "mk", "kn", "i8"},
    {"dynamic", 2, 37, 100, 70, "bmk", "bnk", "i8", true},
    {"dynamic_plain", 2, 5, 30, 4100, "bmk", "bkn", "i8", true},
    {"dynamic_empty_depth", 1, 3, 5, 0, "bmk", "bnk", "i8", true},
    {"dynamic_empty_rows", 1, 0, 5, 4, "bmk", "bnk", "i8", true},
    {"panels", 1, 37, 100, 72, "mk", "nk", "i8", false, 64, 4},
    {"panels_odd", 1, 37, 100, 71, "mk", "nk", "i8", false, 32, 4},
    {"panels_tail", 1, 70, 100, 140, "mk", "nk", "i8", false, 64, 4},
    {"panels_one_row", 1, 1, 100, 1032, "mk", "nk", "i8", false, 64, 4},
    {"panels_eight", 1, 8, 128, 2048, "mk", "nk", "i8", false, 64, 4},
    {"panels_deep", 1, 50, 70, 4508, "mk", "nk", "i8", false, 64, 4},
    {"panels_batched", 3, 17, 33, 21, "bmk", "bnk", "i8", false, 32, 4},
    {"panels_narrow", 1, 23, 29, 36, "mk", "nk", "i8", false, 24, 4},
};

/// Other integers.
const GemmCase integerCases[] = {
    {"u8", 1, 21, 70, 51, "mk", "nk", "u8"},
    {"u8_plain", 1, 3, 70, 51, "mk", "kn", "u8"},
    {"i32", 1, 21, 70, 51, "mk", "nk", "i32"},
    {"i32_in_place", 1, 8, 192, 600, "mk", "kn", "i32"},
    {"i32_panels", 1, 21, 70, 51, "mk", "nk", "i32", false, 64},
    {"i32_few_rows", 1, 2, 70, 51, "mk", "nk", "i32"},
    {"i64", 2, 21, 70, 51, "bmk", "bkn", "i64"},
};

/// Cases of two bytes, which have code of their own where there is AVX512-BF16.
std::vector<GemmCase> bf16Cases() {
  std::vector<GemmCase> found;
  for (const GemmCase &c : cases)
    if (std::string(c.type) == "bf16")
      found.push_back(c);
  return found;
}

class GemmTest
    : public testing::TestWithParam<std::tuple<const char *, GemmCase>> {};

/// Whether this processor can run code for "amx" but for the AMX registers.
bool hasAllButAmx() {
  for (const char *name : {"avx512vnni", "avx512bf16"})
    if (!llvm::cantFail(TargetInfo::get(name)).runsHere())
      return false;
  return true;
}

TEST_P(GemmTest, EqualsPlainLoops) {
  auto [targetName, c] = GetParam();
  TargetInfo target = llvm::cantFail(TargetInfo::get(targetName));
  std::string text = kernelText(c);

  mlir::DialectRegistry registry;
  anabranch::ir::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  ASSERT_TRUE(module) << text;
  auto kernel = *module->getOps<mlir::func::FuncOp>().begin();
  auto refusal = gemmKernel.refusal(kernel, target);
  EXPECT_FALSE(refusal) << *refusal;

  auto library = KernelLibrary::fromText(text, target);
  ASSERT_TRUE(bool(library)) << llvm::toString(library.takeError()) << text;
  std::printf("%s %s: %.0f ms\n", targetName, c.name,
              library->objects()[0].totalMs());
  std::optional<AmxEmulation> emulation;
  if (!target.runsHere() && target.amxInt8 && hasAllButAmx())
    emulation.emplace();
  else if (!target.runsHere())
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
    bool some = c.m * c.k > 0 && (c.m > 16 || c.dynamic);
    EXPECT_EQ(AmxEmulation::products() > 0, some);
    EXPECT_FALSE(AmxEmulation::inUse());
  }
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t m = 0; m < c.m; ++m)
      for (int64_t n = 0; n < c.n; ++n) {
        double expected = 0;
        for (int64_t k = 0; k < c.k; ++k)
          expected += left.values[offset(c, c.left, b, m, n, k)] *
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

std::string caseName(
    const testing::TestParamInfo<std::tuple<const char *, GemmCase>> &info) {
  return std::string(std::get<0>(info.param)) + "_" +
         std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Cases, GemmTest,
                         testing::Combine(testing::Values("avx2", "host"),
                                          testing::ValuesIn(cases)),
                         caseName);
INSTANTIATE_TEST_SUITE_P(
    Bytes, GemmTest,
    testing::Combine(testing::Values("avx2", "avxvnni", "avxvnniint8", "avx512",
                                     "avx512vnni", "amx", "host"),
                     testing::ValuesIn(int8Cases)),
    caseName);
INSTANTIATE_TEST_SUITE_P(Integers, GemmTest,
                         testing::Combine(testing::Values("avx2", "host"),
                                          testing::ValuesIn(integerCases)),
                         caseName);
INSTANTIATE_TEST_SUITE_P(Bf16, GemmTest,
                         testing::Combine(testing::Values("avx512bf16"),
                                          testing::ValuesIn(bf16Cases())),
                         caseName);

/// Which way a right operand takes to the micro-kernel.
TEST(GemmBlocking, ReadsPanelsInPlace) {
  for (const char *name : {"avx2", "avx512", "avx512bf16"})
    for (const GemmCase &c : cases) {
      if (c.width == 0)
        continue;
      TargetInfo target = llvm::cantFail(TargetInfo::get(name));
      mlir::DialectRegistry registry;
      anabranch::ir::registerAllDialects(registry);
      mlir::MLIRContext context(registry);
      auto module =
          mlir::parseSourceString<mlir::ModuleOp>(kernelText(c), &context);
      ASSERT_TRUE(module);
      std::string why;
      auto found =
          Contraction::find(*module->getOps<mlir::func::FuncOp>().begin(), why);
      ASSERT_TRUE(found) << why;
      GemmBlocking blocking = GemmBlocking::choose(*found, target);
      bool isBf16 = std::string(c.type) == "bf16";
      int64_t lanes =
          target.vectorBytes / (std::string(c.type) == "f64" ? 8 : 4);
      bool fits = c.width % lanes == 0 &&
                  c.kPack == (isBf16 && target.avx512Bf16 ? 2 : 1);
      EXPECT_EQ(blocking.right == GemmBlocking::Right::Prepacked, fits)
          << name << " " << c.name;
    }
}

/// A register of either operand that is loaded is used for two products.
TEST(GemmBlocking, PanelsGiveEachAmxRegisterTwoProducts) {
  GemmCase live{"live", 1, 64, 144, 256, "mk", "nk", "i8"};
  mlir::DialectRegistry registry;
  anabranch::ir::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  auto module =
      mlir::parseSourceString<mlir::ModuleOp>(kernelText(live), &context);
  ASSERT_TRUE(module);
  std::string why;
  auto found =
      Contraction::find(*module->getOps<mlir::func::FuncOp>().begin(), why);
  ASSERT_TRUE(found) << why;
  auto widthFor = [&](const char *target) {
    auto panels = choosePanels(*found, llvm::cantFail(TargetInfo::get(target)));
    return panels ? panels->width : 0;
  };
  EXPECT_EQ(widthFor("avx512vnni"), 48);
  EXPECT_EQ(widthFor("amx") % 32, 0);
}

} // namespace
