//===- EpilogueTest.cpp - views of a product keep its kernel --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/EmitKernel.h"
#include "kernels/Plans.h"
#include "support/kernels/KernelLibrary.h"
#include "support/native/ParsedKernel.h"

#include "gtest/gtest.h"

using namespace anabranch;
using namespace anabranch::kernels;

namespace {

/// A product of [3, 5] and [5, 16], and what follows it.
struct Case {
  const char *name;
  const char *result; ///< the type of %result
  const char *text;   ///< from %product to %result
};

const Case cases[] = {
    {"slice", "tensor<3x16xf32>", R"mlir(
  %wide = tensor.expand_shape %product [[0], [1, 2]] output_shape [3, 1, 16]
      : tensor<3x16xf32> into tensor<3x1x16xf32>
  %result = tensor.extract_slice %wide[0, 0, 0] [3, 1, 16] [1, 1, 1]
      : tensor<3x1x16xf32> to tensor<3x16xf32>)mlir"},
    {"slice_and_work", "tensor<1x3x16xf32>", R"mlir(
  %wide = tensor.expand_shape %product [[0, 1], [2]] output_shape [3, 1, 16]
      : tensor<3x16xf32> into tensor<3x1x16xf32>
  %slice = tensor.extract_slice %wide[0, 0, 0] [3, 1, 16] [1, 1, 1]
      : tensor<3x1x16xf32> to tensor<3x16xf32>
  %empty = tensor.empty() : tensor<3x16xf32>
  %same = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>,
                       affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%slice : tensor<3x16xf32>) outs(%empty : tensor<3x16xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.addf %x, %zero : f32
    linalg.yield %y : f32
  } -> tensor<3x16xf32>
  %result = tensor.expand_shape %same [[0, 1], [2]] output_shape [1, 3, 16]
      : tensor<3x16xf32> into tensor<1x3x16xf32>)mlir"},
    {"unit_loop", "tensor<3x1x16xf32>", R"mlir(
  %wide = tensor.expand_shape %product [[0, 1], [2]] output_shape [3, 1, 16]
      : tensor<3x16xf32> into tensor<3x1x16xf32>
  %empty = tensor.empty() : tensor<3x1x16xf32>
  %result = linalg.generic {
      indexing_maps = [affine_map<(i, j, k) -> (i, 0, k)>,
                       affine_map<(i, j, k) -> (i, j, k)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%wide : tensor<3x1x16xf32>) outs(%empty : tensor<3x1x16xf32>) {
  ^bb0(%x: f32, %o: f32):
    linalg.yield %x : f32
  } -> tensor<3x1x16xf32>)mlir"},
};

std::string textOf(const Case &c) {
  std::string type(c.result);
  return R"mlir(
func.func @product(%a: tensor<3x5xf32>, %b: tensor<5x16xf32>) -> )mlir" +
         type + R"mlir( attributes {anabranch.kernel} {
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty() : tensor<3x16xf32>
  %sums = linalg.fill ins(%zero : f32) outs(%init : tensor<3x16xf32>)
      -> tensor<3x16xf32>
  %product = linalg.generic {
      indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
                       affine_map<(m, n, k) -> (k, n)>,
                       affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<3x5xf32>, tensor<5x16xf32>)
      outs(%sums : tensor<3x16xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %p = arith.mulf %x, %y : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<3x16xf32>)mlir" +
         c.text + "\n  return %result : " + type + "\n}\n";
}

class ViewsOfProducts : public testing::TestWithParam<Case> {};

TEST_P(ViewsOfProducts, AreItsEpilogue) {
  std::string text = textOf(GetParam());
  native::TargetInfo target = llvm::cantFail(native::TargetInfo::get("avx2"));
  native::ParsedKernel parsed(text);
  ASSERT_TRUE(bool(parsed)) << text;
  auto considered = considerPlans(parsed.function(), target);
  Considered *chosen = choosePlan(considered);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->row->name, "vector_blocks") << refusalsOf(considered);
  if (!native::runs(target))
    GTEST_SKIP();

  auto library = KernelLibrary::fromText(text, target);
  ASSERT_TRUE(bool(library)) << llvm::toString(library.takeError());
  std::vector<float> a(3 * 5), b(5 * 16), found(3 * 16, -1);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = static_cast<float>(i) - 6;
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = static_cast<float>(i % 7) - 2;
  ASSERT_EQ(library->run("product", {a.data(), b.data(), found.data()}, {}), 0);
  for (int row = 0; row < 3; ++row)
    for (int column = 0; column < 16; ++column) {
      float sum = 0; // of small integers: exact in any order
      for (int depth = 0; depth < 5; ++depth)
        sum += a[row * 5 + depth] * b[depth * 16 + column];
      EXPECT_EQ(found[row * 16 + column], sum) << row << " " << column;
    }
}

INSTANTIATE_TEST_SUITE_P(All, ViewsOfProducts, testing::ValuesIn(cases),
                         [](const testing::TestParamInfo<Case> &info) {
                           return std::string(info.param.name);
                         });

} // namespace
