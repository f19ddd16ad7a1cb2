//===- BuildModelTest.cpp - loops of copies that reorder dimensions -------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/nests/BuildModel.h"

#include "support/codegen/ParsedKernel.h"

#include "gtest/gtest.h"

using namespace anabranch::codegen;

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
  auto replace = [&](const std::string &from, const std::string &to) {
    for (size_t at; (at = text.find(from)) != std::string::npos;)
      text.replace(at, from.size(), to);
  };
  replace("ORDER", copy.order);
  replace("RESULT", copy.result);
  return text;
}

class CopyTest : public testing::TestWithParam<Copy> {};

TEST_P(CopyTest, JoinsDimensionsThatStayNeighbours) {
  const Copy &copy = GetParam();
  ParsedKernel parsed(textOf(copy));
  ASSERT_TRUE(parsed);
  auto model =
      buildModel(parsed.function(), llvm::cantFail(TargetInfo::get("avx512")));
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
  for (size_t at; (at = text.find('N')) != std::string::npos;)
    text.replace(at, 1, std::to_string(channels));
  return text;
}

TEST(ChannelsLast, FewChannelsAreWrittenTogether) {
  for (int channels : {2, 3, 4, 5}) {
    ParsedKernel parsed(channelsLast(channels));
    ASSERT_TRUE(parsed);
    auto model = buildModel(parsed.function(),
                            llvm::cantFail(TargetInfo::get("avx512")));
    ASSERT_TRUE(mlir::succeeded(model));
    const NestGroup &group = model->groups[0];
    EXPECT_EQ(group.interleavesStores, channels <= 4) << channels;
    if (group.interleavesStores)
      EXPECT_EQ(group.blockSize, channels);
  }
}

} // namespace
