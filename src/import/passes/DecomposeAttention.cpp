//===- DecomposeAttention.cpp - attention as two products and a softmax ---===//
// SPDX-License-Identifier: Apache-2.0
//
// The reference for every attention kernel. It also runs where no attention
// kernel accepts.
//
//   Before: %r = anabranch.attention %q, %k, %v ...
//   After:  %s = contraction(%q, %k)
//           %m, %e, %t = maximum, exponential and sum of scale * %s + mask
//           %p = %e / %t, or zero where all is masked
//           %r = contraction(%p, %v)

#include "import/lowering/Contract.h"
#include "import/lowering/Shapes.h"
#include "import/passes/Passes.h"
#include "ir/PassBase.h"
#include "ir/Scope.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <limits>

using namespace mlir;

namespace anabranch {
namespace importer {

namespace {

/// One attention that is being decomposed. With grouped heads, the query's head
/// dimension is split in two, [key heads, queries of each], so that its queries
/// read a key head without a copy; `extra` is then one.
class Decomposition {
public:
  Decomposition(OpBuilder &builder, ir::AttentionOp op)
      : b(builder, op.getLoc()), op(op), dtype(b.tensor(op.getQuery()).dtype),
        sum(accumulatorOf(dtype)) {}

  Value run();

private:
  AffineMap mapTo(ArrayRef<unsigned> dims, unsigned loops) {
    return AffineMap::getMultiDimMapWithTargets(loops, dims, b.context());
  }
  Value splitHeads();
  Value product(Value left, Value right, bool transposed, const Sizes &sizes);
  Value masked(Value scores);
  Value probabilities(Value scores);
  Operand reduceLast(ArrayRef<Operand> operands, Combine combine,
                     LoweringBuilder::BodyFn map);

  LoweringBuilder b;
  ir::AttentionOp op;
  DType dtype, sum;
  unsigned batch = 0, extra = 0;
  /// Sizes of the batch dimensions, of the extra one, of L and of S.
  Sizes scoreSizes;
};

} // namespace

/// The query as [batch..., (queries of a key head,) L, E].
Value Decomposition::splitHeads() {
  Sizes sizes = b.sizesOf(op.getQuery());
  batch = sizes.size() - 2;
  auto keyType = cast<RankedTensorType>(op.getKey().getType());
  auto queryType = cast<RankedTensorType>(op.getQuery().getType());
  if (batch > 0 && op.getGrouped() &&
      keyType.getDimSize(batch - 1) != queryType.getDimSize(batch - 1)) {
    extra = 1;
    int64_t heads = keyType.getDimSize(batch - 1);
    int64_t queries = queryType.getDimSize(batch - 1) / heads;
    sizes[batch - 1] = b.indexAttr(heads);
    sizes.insert(sizes.begin() + batch, b.indexAttr(queries));
  }
  scoreSizes = sizes;
  scoreSizes.back() = b.sizeOf(op.getKey(), batch);
  return reshape(b.builder, b.loc, op.getQuery(), sizes);
}

/// A product for every head: [..., L, K] times a matrix of keys or values. If
/// `transposed`, the matrix's rows are the product's columns. Loops: batch...,
/// extra, L, columns, K.
Value Decomposition::product(Value left, Value right, bool transposed,
                             const Sizes &sizes) {
  unsigned row = batch + extra, column = row + 1, inner = row + 2;
  SmallVector<unsigned> rows = llvm::to_vector(llvm::seq<unsigned>(0, row + 1));
  SmallVector<unsigned> leftDims = rows,
                        rightDims(rows.begin(), rows.begin() + batch),
                        out = rows;
  leftDims.push_back(inner);
  rightDims.append({transposed ? column : inner, transposed ? inner : column});
  out.push_back(column);
  return contract(b.builder, b.loc, {left, mapTo(leftDims, row + 3)},
                  {right, mapTo(rightDims, row + 3)}, mapTo(out, row + 3),
                  sizes, dtype);
}

/// scale * scores + mask; minus infinity where the mask or the diagonal hides a
/// score.
Value Decomposition::masked(Value scores) {
  SmallVector<Operand> operands = {b.tensor(scores, sum)};
  if (Value mask = op.getMask()) {
    // The mask's head dimension splits as the query's did.
    auto type = cast<RankedTensorType>(mask.getType());
    if (extra && type.getRank() >= 3) {
      Sizes sizes = b.sizesOf(mask);
      auto head = sizes.end() - 3;
      bool repeats = type.getDimSize(type.getRank() - 3) == 1;
      *head = repeats ? b.indexAttr(1) : scoreSizes[batch - 1];
      sizes.insert(sizes.end() - 2,
                   repeats ? b.indexAttr(1) : scoreSizes[batch]);
      mask = reshape(b.builder, b.loc, mask, sizes);
    }
    operands.push_back(b.tensor(mask));
  }
  int64_t row = scoreSizes.size() - 2;
  double scale = op.getScale().convertToDouble();
  double hidden = -std::numeric_limits<double>::infinity();
  return b.elementwiseMixed(
      operands, sum, scoreSizes, [&](Body &body, ArrayRef<Num> x) {
        Num score = x[0] * scale;
        if (x.size() > 1)
          score = x[1].dtype.isBool()
                      ? s::select(x[1], score, score.constant(hidden))
                      : score + s::cast(x[1], sum);
        if (op.getCausal())
          score = s::select(s::index(body, row + 1) <= s::index(body, row),
                            score, score.constant(hidden));
        return score;
      });
}

Operand Decomposition::reduceLast(ArrayRef<Operand> operands, Combine combine,
                                  LoweringBuilder::BodyFn map) {
  int64_t last = scoreSizes.size() - 1;
  Value reduced = b.reduce(operands, scoreSizes, {last}, combine, sum, map);
  return b.tensor(b.unsqueeze(reduced, {last}), sum);
}

/// The softmax of the scores, in the dtype of the operands.
Value Decomposition::probabilities(Value scores) {
  auto same = [](Body &, ArrayRef<Num> x) { return x[0]; };
  double hidden = -std::numeric_limits<double>::infinity();
  Operand score = b.tensor(scores, sum);
  Operand maximum = reduceLast({score}, Combine::Max, same);
  Operand exponential = b.tensor(
      b.elementwise({score, maximum}, sum, sum, scoreSizes,
                    [&](Body &, ArrayRef<Num> x) {
                      // If all scores of a row are hidden, the result is zero,
                      // not exp(-inf - -inf).
                      return s::select(x[1] == hidden, x[0].constant(0.0),
                                       s::exp(x[0] - x[1]));
                    }),
      sum);
  Operand total = reduceLast({exponential}, Combine::Add, same);
  return b.elementwise({exponential, total}, sum, dtype, scoreSizes,
                       [](Body &, ArrayRef<Num> x) {
                         return s::select(x[1] == 0.0, x[0], x[0] / x[1]);
                       });
}

Value Decomposition::run() {
  Value query = splitHeads();
  Value scores = product(query, op.getKey(), /*transposed=*/true, scoreSizes);
  Value weights = probabilities(masked(scores));
  Sizes sizes = scoreSizes;
  sizes.back() = b.sizeOf(op.getValue(), batch + 1);
  Value mixed = product(weights, op.getValue(), /*transposed=*/false, sizes);
  Value result = b.convert(b.tensor(mixed, sum), dtype);
  Sizes whole = b.sizesOf(op.getQuery());
  whole.back() = sizes.back();
  return reshape(b.builder, b.loc, result, whole);
}

namespace {

LogicalResult decompose(func::FuncOp main,
                        const std::function<bool(ir::AttentionOp)> &keep) {
  SmallVector<ir::AttentionOp> found;
  main.walk([&](ir::AttentionOp op) {
    if (!keep || !keep(op))
      found.push_back(op);
  });
  for (ir::AttentionOp op : found) {
    ir::ScopeKeeper keeper(op);
    OpBuilder builder(op, &keeper);
    op.getResult().replaceAllUsesWith(Decomposition(builder, op).run());
    op.erase();
  }
  return success();
}

} // namespace
} // namespace importer

std::unique_ptr<Pass>
createDecomposeAttentionPass(std::function<bool(ir::AttentionOp)> keep) {
  return ir::makePass<func::FuncOp, arith::ArithDialect, linalg::LinalgDialect,
                      math::MathDialect, tensor::TensorDialect>(
      "anabranch-decompose-attention",
      "attention as two contractions and a softmax",
      [keep = std::move(keep)](func::FuncOp main) {
        return importer::decompose(main, keep);
      });
}

} // namespace anabranch
