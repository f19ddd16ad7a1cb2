//===- BuildModelTest.cpp - loops of copies that reorder dimensions -------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/nests/BuildModel.h"
#include "machine/processor/CpuModels.h"

#include "support/kernels/KernelText.h"
#include "support/native/ParsedKernel.h"

#include "gtest/gtest.h"

using namespace anabranch;
using namespace anabranch::kernels;

namespace {

/// A copy of a 7 x 6 x 1040 tensor into a result of other dimensions' order.
struct Copy {
  const char *name;
  const char *order; ///< the source's dimensions in the order of the result
  const char *result;
  size_t loops; ///< after dimensions that stay neighbours are joined
  bool isTransposed;
};

std::string textOf(const Copy &copy) {
  std::string text = R"mlir(
func.func @copy(%x: tensor<7x6x1040xf32>) -> tensor<RESULT>
    attributes {anabranch.kernel} {
  %empty = tensor.empty() : tensor<RESULT>
  %copy = linalg.generic {
      indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>,
                       affine_map<(a, b, c) -> (ORDER)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<7x6x1040xf32>) outs(%empty : tensor<RESULT>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<RESULT>
  return %copy : tensor<RESULT>
})mlir";
  replaceAll(text, "ORDER", copy.order);
  replaceAll(text, "RESULT", copy.result);
  return text;
}

class CopyTest : public testing::TestWithParam<Copy> {};

TEST_P(CopyTest, JoinsDimensionsThatStayNeighbours) {
  const Copy &copy = GetParam();
  native::ParsedKernel parsed(textOf(copy));
  ASSERT_TRUE(parsed);
  auto model = buildModel(parsed.function(),
                          llvm::cantFail(native::TargetInfo::get("avx512")));
  ASSERT_TRUE(mlir::succeeded(model));
  ASSERT_EQ(model->groups.size(), 1u);
  const NestGroup &group = model->groups[0];
  EXPECT_EQ(group.sharedLoops.size(), copy.loops);
  EXPECT_EQ(!group.transposedLoads.empty(), copy.isTransposed);
}

const Copy copies[] = {
    {"same", "a, b, c", "7x6x1040xf32", 1, false},
    {"channels_first", "c, a, b", "1040x7x6xf32", 2, true},
    {"channels_and_columns", "c, b, a", "1040x6x7xf32", 3, false},
    {"rows_swapped", "b, a, c", "6x7x1040xf32", 3, false},
    {"columns_first", "b, c, a", "6x1040x7xf32", 2, false},
};

INSTANTIATE_TEST_SUITE_P(Copies, CopyTest, testing::ValuesIn(copies),
                         [](const testing::TestParamInfo<Copy> &info) {
                           return std::string(info.param.name);
                         });

/// A copy that puts the channels of an image last.
std::string channelsLast(int channels) {
  std::string text = R"mlir(
func.func @copy(%x: tensor<Nx5x40xf32>) -> tensor<5x40xNxf32>
    attributes {anabranch.kernel} {
  %empty = tensor.empty() : tensor<5x40xNxf32>
  %copy = linalg.generic {
      indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>,
                       affine_map<(a, b, c) -> (b, c, a)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<Nx5x40xf32>) outs(%empty : tensor<5x40xNxf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<5x40xNxf32>
  return %copy : tensor<5x40xNxf32>
})mlir";
  replaceAll(text, "N", std::to_string(channels));
  return text;
}

TEST(ChannelsLast, FewChannelsAreWrittenTogether) {
  for (int channels : {2, 3, 4, 5}) {
    native::ParsedKernel parsed(channelsLast(channels));
    ASSERT_TRUE(parsed);
    auto model = buildModel(parsed.function(),
                            llvm::cantFail(native::TargetInfo::get("avx512")));
    ASSERT_TRUE(mlir::succeeded(model));
    const NestGroup &group = model->groups[0];
    EXPECT_EQ(group.interleavesStores, channels <= 4) << channels;
    if (group.interleavesStores)
      EXPECT_EQ(group.blockSize, channels);
  }
}

/// Two sums of each window of rows. Windows begin at every second row.
std::string sumsOfWindows(int64_t window) {
  std::string slices, values, arguments, types, maps, sum;
  for (int64_t i = 0; i < window; ++i) {
    std::string n = std::to_string(i), comma = i ? ", " : "";
    slices += "  %s" + n + " = tensor.extract_slice %x[" + n +
              ", 0] [16, 64] [2, 1] : tensor<64x64xf32> to tensor<16x64xf32>\n";
    values += comma + "%s" + n;
    types += comma + "tensor<16x64xf32>";
    maps += "affine_map<(a, b) -> (a, b)>, ";
    arguments += "%v" + n + ": f32, ";
    if (i)
      sum += "    %t" + n + " = OPERATION " +
             (i == 1 ? "%v0" : "%t" + std::to_string(i - 1)) + ", %v" + n +
             " : f32\n";
  }
  auto nest = [&](const std::string &name, const std::string &operation) {
    std::string text =
        "  %" + name + " = linalg.generic {indexing_maps = [" + maps +
        "affine_map<(a, b) -> (a, b)>], iterator_types = "
        "[\"parallel\", \"parallel\"]} ins(" +
        values + " : " + types +
        ") outs(%empty : tensor<16x64xf32>) {\n  ^bb0(" + arguments +
        "%o: f32):\n" + sum + "    linalg.yield %t" +
        std::to_string(window - 1) + " : f32\n  } -> tensor<16x64xf32>\n";
    replaceAll(text, "OPERATION", operation);
    return text;
  };
  return "func.func @sums(%x: tensor<64x64xf32>) -> (tensor<16x64xf32>, "
         "tensor<16x64xf32>) attributes {anabranch.kernel} {\n"
         "  %empty = tensor.empty() : tensor<16x64xf32>\n" +
         slices + nest("sum", "arith.addf") + nest("product", "arith.mulf") +
         "  return %sum, %product : tensor<16x64xf32>, tensor<16x64xf32>\n}";
}

/// Each block of positions leaves registers to compute in.
TEST(SharedLoads, FitIntoRegisters) {
  for (const char *name : {"avx2", "avx512", "neoverse-v1"}) {
    native::TargetInfo target = llvm::cantFail(native::TargetInfo::get(name));
    int64_t registers = target.isa().vectorRegisters();
    for (int64_t window : {12, 16, 20, 24, 28}) {
      native::ParsedKernel parsed(sumsOfWindows(window));
      ASSERT_TRUE(parsed);
      auto model = buildModel(parsed.function(), target);
      ASSERT_TRUE(mlir::succeeded(model));
      const NestGroup &group = model->groups.at(0);
      ASSERT_EQ(group.nests.size(), 2u);
      int64_t held = window + 2 * (group.blockSize - 1);
      if (group.blockSize > 1)
        EXPECT_LE(held + 8, registers) << name << " " << window;
      // Twice as many positions, and four at most, would not fit.
      int64_t more = window + 2 * (2 * group.blockSize - 1);
      if (group.blockSize < 4)
        EXPECT_GT(more + 8, registers) << name << " " << window;
    }
  }
}

/// A sum over the first dimension.
std::string sumOfRows(int64_t rows, int64_t columns) {
  std::string text = R"mlir(
func.func @sum(%x: tensor<ROWSxCOLUMNSxf32>) -> tensor<COLUMNSxf32>
    attributes {anabranch.kernel} {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<COLUMNSxf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<COLUMNSxf32>)
      -> tensor<COLUMNSxf32>
  %sum = linalg.generic {
      indexing_maps = [affine_map<(m, n) -> (m, n)>,
                       affine_map<(m, n) -> (n)>],
      iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<ROWSxCOLUMNSxf32>) outs(%start : tensor<COLUMNSxf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %o, %v : f32
    linalg.yield %s : f32
  } -> tensor<COLUMNSxf32>
  return %sum : tensor<COLUMNSxf32>
})mlir";
  replaceAll(text, "ROWS", std::to_string(rows));
  replaceAll(text, "COLUMNS", std::to_string(columns));
  return text;
}

TEST(RowOrder, IsThatOfTensorsThatTheCacheDoesNotHold) {
  struct Case {
    int64_t rows, columns, levels, atOnce;
  };
  for (const char *name : {"avx2", "avx512"}) {
    native::TargetInfo target = llvm::cantFail(native::TargetInfo::get(name));
    int64_t many = target.model.l3Bytes / 4096;
    for (Case c : {Case{64, 64, 0, 1}, Case{100000, 4, 0, 1},
                   Case{200, 4096, 1, 8}, Case{2048, 2048, 2, 8},
                   Case{many, 1024, 3, 1}, Case{many, 2048, 2, 8}}) {
      native::ParsedKernel parsed(sumOfRows(c.rows, c.columns));
      ASSERT_TRUE(parsed);
      auto model = buildModel(parsed.function(), target);
      ASSERT_TRUE(mlir::succeeded(model));
      const NestGroup &group = model->groups.at(0);
      EXPECT_EQ(group.rowLevels, c.levels) << c.rows << " x " << c.columns;
      EXPECT_EQ(group.rowsAtOnce, c.atOnce) << c.rows << " x " << c.columns;
    }
  }
}

/// Zen 4 runs instructions of 512 bits in halves, Sapphire Rapids does not.
TEST(Lanes, OfSumsFromMemoryAreAsWideAsUnits) {
  native::TargetInfo target = llvm::cantFail(native::TargetInfo::get("avx512"));
  auto lanesOn = [&](const char *model, int64_t rows) {
    target.model = *anabranch::machine::findCpuModel(model);
    native::ParsedKernel parsed(sumOfRows(rows, 1024));
    return buildModel(parsed.function(), target)->groups.at(0).width;
  };
  EXPECT_EQ(lanesOn("znver4", 4096), 8);
  EXPECT_EQ(lanesOn("sapphirerapids", 4096), 16);
  EXPECT_EQ(lanesOn("znver4", 16), lanesOn("sapphirerapids", 16));
}

} // namespace
