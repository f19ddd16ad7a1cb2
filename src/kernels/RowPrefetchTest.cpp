//===- RowPrefetchTest.cpp - which kernels prefetch rows ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/EmitKernel.h"
#include "support/native/ParsedKernel.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include "gtest/gtest.h"

using namespace anabranch;
using namespace anabranch::kernels;

namespace {

/// The largest element of each row, and the row without it if WITHOUT is set.
std::string largestOfRows(const std::string &shape, bool without) {
  std::string text = R"mlir(
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
func.func @largest(%x: tensor<SHAPExf32>) -> tensor<RESULTxf32>
    attributes {anabranch.kernel} {
  %least = arith.constant 0xFF800000 : f32
  %rows = tensor.empty() : tensor<4096xf32>
  %start = linalg.fill ins(%least : f32) outs(%rows : tensor<4096xf32>)
      -> tensor<4096xf32>
  %max = linalg.generic {indexing_maps = [#id, #row],
                         iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<SHAPExf32>) outs(%start : tensor<4096xf32>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<4096xf32>
)mlir";
  text += without ? R"mlir(
  %empty = tensor.empty() : tensor<SHAPExf32>
  %rest = linalg.generic {indexing_maps = [#id, #row, #id],
                          iterator_types = ["parallel", "parallel"]}
      ins(%x, %max : tensor<SHAPExf32>, tensor<4096xf32>)
      outs(%empty : tensor<SHAPExf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    linalg.yield %d : f32
  } -> tensor<SHAPExf32>
  return %rest : tensor<SHAPExf32>
})mlir"
                  : "  return %max : tensor<4096xf32>\n}";
  auto replace = [&](const std::string &from, const std::string &to) {
    for (size_t at; (at = text.find(from)) != std::string::npos;)
      text.replace(at, from.size(), to);
  };
  replace("RESULT", without ? shape : "4096");
  replace("SHAPE", shape);
  return text;
}

class RowPrefetchTest : public testing::TestWithParam<std::string> {};

/// Prefetches in the emitted code; -1 if it cannot be emitted.
int64_t prefetches(const std::string &text, const std::string &target) {
  native::ParsedKernel parsed(text);
  if (!parsed)
    return -1;
  parsed.module().getContext()->loadAllAvailableDialects();
  if (failed(emitKernel(parsed.function(),
                        llvm::cantFail(native::TargetInfo::get(target)))))
    return -1;
  int64_t count = 0;
  parsed.module().walk([&](mlir::LLVM::Prefetch) { ++count; });
  return count;
}

} // namespace

TEST_P(RowPrefetchTest, IsForRowsThatAreReadAgain) {
  EXPECT_GT(prefetches(largestOfRows("4096x768", true), GetParam()), 0);
}

TEST_P(RowPrefetchTest, LeavesAStreamOfRowsToTheProcessor) {
  EXPECT_EQ(prefetches(largestOfRows("4096x768", false), GetParam()), 0);
}

TEST_P(RowPrefetchTest, LeavesWhatTheSecondCacheHolds) {
  EXPECT_EQ(prefetches(largestOfRows("4096x16", true), GetParam()), 0);
}

INSTANTIATE_TEST_SUITE_P(Targets, RowPrefetchTest,
                         testing::Values("portable", "aarch64", "neoverse-v1",
                                         "avx2", "avx512", "host"));
