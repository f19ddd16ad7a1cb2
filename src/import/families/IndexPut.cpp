//===- IndexPut.cpp - writes through one-dimensional or many indices ------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/IndexLists.h"
#include "import/lowering/OpTable.h"
#include "import/lowering/Scattering.h"
#include "import/lowering/Shapes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace anabranch;
using namespace anabranch::importer;

static Num sumOf(Num a, Num b) {
  DType math = a.dtype.math();
  return s::cast(a, math) + s::cast(b, math);
}

/// Whether the values are static and at most a sixteenth of the tensor.
static bool areSmallPart(Operand values, Operand self) {
  return values.type().hasStaticShape() && self.type().hasStaticShape() &&
         values.type().getNumElements() <= self.type().getNumElements() / 16;
}

/// x[mask] = number: elementwise.
static Value putMasked(ir::AtenOp op, LoweringBuilder &b, Operand self,
                       Operand mask, Operand values) {
  // The mask covers the first dimensions.
  Sizes sizes = b.sizesOf(mask.value);
  sizes.append(self.rank() - mask.rank(), b.indexAttr(1));
  mask.value = reshape(b.builder, b.loc, mask.value, sizes);
  return b.elementwiseMixed(
      {self, mask, values}, self.dtype, op.getResultSizes(),
      [](Body &, ArrayRef<Num> x) { return s::select(x[1], x[2], x[0]); });
}

/// Whether the values broadcast to the sizes, as far as these are known.
static bool canBroadcast(Operand values, ArrayRef<OpFoldResult> sizes) {
  int64_t offset = static_cast<int64_t>(sizes.size()) - values.rank();
  if (offset < 0)
    return false;
  for (int64_t dim = 0; dim < values.rank(); ++dim) {
    int64_t mine = values.size(dim);
    auto wanted = getConstantIntValue(sizes[offset + dim]);
    if (wanted && mine != 1 && !ShapedType::isDynamic(mine) && mine != *wanted)
      return false;
  }
  return true;
}

static Lowered lowerIndexPut(ir::AtenOp op, LoweringBuilder &b) {
  Operand self = b.operand("self"), values = b.operand("values");
  bool accumulate = op.getBoolArg("accumulate").value_or(false);
  SmallVector<Operand> indices = b.operandList("indices");
  if (values.dtype != self.dtype)
    return b.refuse("values of another dtype");
  if (accumulate && self.dtype.isSmallFloat())
    return b.refuse("sums of floats of eight bits");
  if (!accumulate && indices.size() == 1 && indices[0].dtype.isBool() &&
      values.rank() == 0)
    return lowered(putMasked(op, b, self, indices[0], values));
  FailureOr<IndexList> list = IndexList::of(b, self, "indices");
  if (failed(list))
    return failure();
  Sizes sizes = list->resultSizes(b, self.value);
  if (!canBroadcast(values, sizes))
    return b.refuse("values that do not fit");
  values.value = broadcastTo(b, values.value, sizes);
  SmallVector<Read> reads = list->reads(sizes);
  Indices extents = list->extents(b, self.value);
  auto put = [&](Body &body, ArrayRef<Value> point, Num current,
                 Num update) -> Placed {
    Indices elements;
    for (const Read &read : reads) {
      // A read's map is projected dimensions and zeros.
      Indices at;
      for (AffineExpr expr : read.map.getResults()) {
        auto dim = dyn_cast<AffineDimExpr>(expr);
        at.push_back(dim ? point[dim.getPosition()]
                         : Value(body.create<arith::ConstantIndexOp>(0)));
      }
      elements.push_back(
          body.builder.create<tensor::ExtractOp>(body.loc, read.tensor, at));
    }
    return {list->target(body, point, elements, extents),
            accumulate ? sumOf(current, update) : update};
  };
  // Few values are added as eager PyTorch adds all of them, with a rounding
  // after each: that takes less time than a conversion of the whole tensor.
  bool isWide = accumulate && !areSmallPart(values, self);
  return lowered(isWide ? scatterWide(b, self, values, put)
                        : scatter(b, self, values, put));
}

namespace {
/// index_add, index_copy and index_fill: one vector of positions along `dim`.
struct Lines {
  Operand self, index;
  int64_t dim;
  Value size;

  static FailureOr<Lines> of(ir::AtenOp op, LoweringBuilder &b) {
    Lines lines;
    lines.self = b.operand("self");
    lines.index = b.operand("index");
    lines.dim = dimArg(op, "dim", lines.self.rank());
    if (lines.self.rank() == 0)
      return b.refuse("a 0-d tensor");
    if (!lines.index.dtype.isInt())
      return b.refuse("the index is no integer tensor");
    if (lines.self.size(lines.dim) == 0)
      return b.refuse("the dimension is empty");
    if (lines.index.rank() == 0)
      lines.index.value =
          reshape(b.builder, b.loc, lines.index.value, {b.indexAttr(1)});
    lines.size =
        asIndex(b.builder, b.loc, b.sizeOf(lines.self.value, lines.dim));
    return lines;
  }

  Indices target(Body &body, ArrayRef<Value> point, bool wrap) const {
    Indices position(point);
    position[dim] = indexAt(body, index.value, point[dim], size, wrap);
    return position;
  }
};
} // namespace

static Lowered lowerIndexAdd(ir::AtenOp op, LoweringBuilder &b) {
  FailureOr<Lines> lines = Lines::of(op, b);
  if (failed(lines))
    return failure();
  Operand source = b.operand("source");
  auto alpha = op.getFloatArg("alpha");
  if (!alpha)
    return b.refuse("alpha is symbolic");
  if (source.rank() != lines->self.rank())
    return b.refuse("the source has another rank");
  auto target = [&](Body &body, ArrayRef<Value> point) {
    return lines->target(body, point, /*wrap=*/false);
  };
  return lowered(scatterSum(b, lines->self, source, {lines->index, lines->dim},
                            target, *alpha));
}

static Lowered lowerIndexCopy(ir::AtenOp op, LoweringBuilder &b) {
  FailureOr<Lines> lines = Lines::of(op, b);
  if (failed(lines))
    return failure();
  Operand source = b.operand("source");
  if (source.rank() != lines->self.rank())
    return b.refuse("the source has another rank");
  return lowered(scatter(
      b, lines->self, source,
      [&](Body &body, ArrayRef<Value> point, Num, Num update) -> Placed {
        return {lines->target(body, point, /*wrap=*/false), update};
      }));
}

/// index_fill: writes a number, or a 0-d tensor, to every chosen position.
static Lowered lowerIndexFill(ir::AtenOp op, LoweringBuilder &b) {
  FailureOr<Lines> lines = Lines::of(op, b);
  if (failed(lines))
    return failure();
  Operand value = b.operand("value");
  Sizes sizes = b.sizesOf(lines->self.value);
  sizes[lines->dim] = b.sizeOf(lines->index.value, 0);
  Operand updates =
      b.tensor(b.elementwiseMixed({value}, lines->self.dtype, sizes,
                                  [](Body &, ArrayRef<Num> x) { return x[0]; }),
               lines->self.dtype);
  return lowered(scatter(
      b, lines->self, updates,
      [&](Body &body, ArrayRef<Value> point, Num, Num update) -> Placed {
        return {lines->target(body, point, /*wrap=*/true), update};
      }));
}

/// The gradient of a lookup: each row is added to the row that it was read
/// from.
static Lowered lowerEmbeddingBackward(ir::AtenOp op, LoweringBuilder &b) {
  Operand grad = b.operand("grad_output"), indices = b.operand("indices");
  auto padding = op.getIntArg("padding_idx");
  if (op.getBoolArg("scale_grad_by_freq").value_or(false) || !padding)
    return b.refuse("gradients scaled by frequency");
  Sizes sizes = op.getResultSizes();
  DType dtype = b.resultDType();
  // Many rows may be added to one, so the sum has full precision and is rounded
  // once.
  DType sum = dtype.math();
  Operand zeros = b.tensor(b.fill(sizes, sum, 0), sum);
  Value size = asIndex(b.builder, b.loc, sizes[0]);
  int64_t indexRank = indices.rank();
  Value gradient = scatter(
      b, zeros, grad,
      [&](Body &body, ArrayRef<Value> point, Num current,
          Num update) -> Placed {
        Value row = indexAt(body, indices.value, point.take_front(indexRank),
                            size, /*wrap=*/false);
        Num next = sumOf(current, update);
        if (*padding >= 0) {
          Value at = body.create<arith::ConstantIndexOp>(*padding);
          Value isPadding =
              body.create<arith::CmpIOp>(arith::CmpIPredicate::eq, row, at);
          next = s::select({&body, isPadding, DType::boolean(b.context())},
                           current, next);
        }
        return {{row, point.back()}, next};
      });
  return lowered(b.convert(b.tensor(gradient, sum), dtype));
}

void anabranch::importer::registerIndexPut(OpTable &table) {
  table.family("scatter");
  StringRef puts = "T(3, 4, 5), [None, I(4, 6)], T(3, 6, 5);"
                   "T(3, 4), [I(3, 2)], T(4), True; T(3, 4), [B(3, 4)], T()";
  table.add("index_put", lowerIndexPut, puts, Movable);
  table.add("_unsafe_index_put", lowerIndexPut, "", Movable);
  // PyTorch's decompositions of these wrap other negative positions than the
  // operators do.
  table.addWhole("index_add", lowerIndexAdd, "T(3, 4), 1, I(4, 6), T(3, 6)");
  table.addWhole("index_copy", lowerIndexCopy, "T(3, 4), 1, I(4, 2), T(3, 2)",
                 Movable);
  table.addWhole("index_fill.int_Scalar", lowerIndexFill,
                 "T(3, 4), 1, I(4, 2), 3", Movable);
  table.addWhole("index_fill.int_Tensor", lowerIndexFill,
                 "T(3, 4), 1, I(4, 2), T()", Movable);
  table.add("embedding_dense_backward", lowerEmbeddingBackward,
            "T(2, 3, 4), I(9, 2, 3), 9, -1, False", Floats | I32 | I64);
}
