//===- WorkTest.cpp - FLOP and bytes of kernels, counted by hand ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/cost/Work.h"

#include "ir/Anabranch.h"
#include "gtest/gtest.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <string>

using namespace anabranch;

namespace {

double valueOf(const std::vector<std::unique_ptr<package::TermT>> &terms,
               const std::vector<double> &sizes) {
  double sum = 0;
  for (const auto &term : terms) {
    double product = term->factor;
    for (int size : term->sizes)
      product *= sizes.at(static_cast<size_t>(size));
    sum += product;
  }
  return sum;
}

class Work : public ::testing::Test {
protected:
  Work() : context(makeRegistry()) { context.loadAllAvailableDialects(); }

  /// The work of a kernel with this signature and this body.
  std::unique_ptr<package::WorkT> work(const std::string &signature,
                                       const std::string &body) {
    std::string text = "#mk = affine_map<(m, n, k) -> (m, k)>\n"
                       "#kn = affine_map<(m, n, k) -> (k, n)>\n"
                       "#mn = affine_map<(m, n, k) -> (m, n)>\n"
                       "#i = affine_map<(i) -> (i)>\n"
                       "func.func @k(" +
                       signature + " {\n" + body + "}\n";
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    return module
               ? schedule::workOf(*module->getOps<mlir::func::FuncOp>().begin())
               : nullptr;
  }

  void expect(const std::unique_ptr<package::WorkT> &work, double flops,
              double bytes, const std::vector<double> &sizes = {}) {
    ASSERT_TRUE(work);
    EXPECT_EQ(valueOf(work->flops, sizes), flops);
    EXPECT_EQ(valueOf(work->bytes, sizes), bytes);
  }

private:
  static mlir::DialectRegistry makeRegistry() {
    mlir::DialectRegistry registry;
    ir::registerAllDialects(registry);
    return registry;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

TEST_F(Work, OfAProductWithSymbolicRows) {
  auto product =
      work("%a: tensor<?x8xf32>, %b: tensor<8x5xf32>) -> tensor<?x5xf32>",
           R"mlir(
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %a, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%m) : tensor<?x5xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x5xf32>) -> tensor<?x5xf32>
  %r = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<?x8xf32>, tensor<8x5xf32>) outs(%z : tensor<?x5xf32>) {
  ^bb0(%l: f32, %w: f32, %o: f32):
    %p = arith.mulf %l, %w : f32
    %q = arith.addf %o, %p : f32
    linalg.yield %q : f32
  } -> tensor<?x5xf32>
  return %r : tensor<?x5xf32>
)mlir");
  // The sizes are the rows of the argument and the rows of the result.
  expect(product, 2 * 3 * 5 * 8, 4 * (3 * 8 + 8 * 5 + 3 * 5), {3, 3});
  expect(product, 2 * 100 * 5 * 8, 4 * (100 * 8 + 8 * 5 + 100 * 5), {100, 100});
}

TEST_F(Work, OfHalfPrecisionCountsItsBytesAndNoCasts) {
  expect(work("%a: tensor<16xbf16>) -> tensor<16xbf16>", R"mlir(
  %e = tensor.empty() : tensor<16xbf16>
  %r = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]}
      ins(%a : tensor<16xbf16>) outs(%e : tensor<16xbf16>) {
  ^bb0(%x: bf16, %o: bf16):
    %w = arith.extf %x : bf16 to f32
    %y = math.exp %w : f32
    %n = arith.truncf %y : f32 to bf16
    linalg.yield %n : bf16
  } -> tensor<16xbf16>
  return %r : tensor<16xbf16>
)mlir"),
         16, 2 * (16 + 16));
}

TEST_F(Work, OfAGatherCountsWhatIsFetched) {
  expect(
      work("%table: tensor<1000x4xf32>, %at: tensor<6xi64>) -> tensor<6x4xf32>",
           R"mlir(
  %e = tensor.empty() : tensor<6x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%at : tensor<6xi64>) outs(%e : tensor<6x4xf32>) {
  ^bb0(%n: i64, %o: f32):
    %row = arith.index_cast %n : i64 to index
    %column = linalg.index 1 : index
    %x = tensor.extract %table[%row, %column] : tensor<1000x4xf32>
    linalg.yield %x : f32
  } -> tensor<6x4xf32>
  return %r : tensor<6x4xf32>
)mlir"),
      0, 4 * 6 * 4 + 8 * 6 + 4 * 6 * 4);
}

TEST_F(Work, OfAWriteInPlaceCountsTheRowsWritten) {
  expect(work("%cache: tensor<10x8xf32>, %row: tensor<1x8xf32>, %at: index) "
              "-> (tensor<10x8xf32> {anabranch.in_place = 0})",
              R"mlir(
  %r = tensor.insert_slice %row into %cache[%at, 0] [1, 8] [1, 1] : tensor<1x8xf32> into tensor<10x8xf32>
  return %r : tensor<10x8xf32>
)mlir"),
         0, 4 * 8 + 4 * 8, {3});
}

TEST_F(Work, OfAttentionCountsBothProductsAndTheScores) {
  // 2 heads, 3 queries, 5 keys, 4 and 6 wide.
  expect(work("%q: tensor<2x3x4xf32>, %k: tensor<2x5x4xf32>, %v: "
              "tensor<2x5x6xf32>) "
              "-> tensor<2x3x6xf32>",
              R"mlir(
  %r = anabranch.attention %q, %k, %v {scale = 1.0 : f64} : (tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x6xf32>) -> tensor<2x3x6xf32>
  return %r : tensor<2x3x6xf32>
)mlir"),
         2 * 3 * 5 * (2 * 4 + 2 * 6 + 5),
         4 * 2 * (3 * 4 + 5 * 4 + 5 * 6 + 3 * 6));
}

TEST_F(Work, IsUnknownWhereASizeIsNoSum) {
  auto unknown = work("%a: tensor<?xf32>, %n: index) -> tensor<?xf32>", R"mlir(
  %c4 = arith.constant 4 : index
  %half = arith.remui %n, %c4 : index
  %r = tensor.extract_slice %a[0] [%half] [1] : tensor<?xf32> to tensor<?xf32>
  %e = tensor.empty(%half) : tensor<?xf32>
  %s = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]}
      ins(%r : tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.negf %x : f32
    linalg.yield %y : f32
  } -> tensor<?xf32>
  return %s : tensor<?xf32>
)mlir");
  EXPECT_FALSE(unknown);
}

} // namespace
