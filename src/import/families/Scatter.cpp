//===- Scatter.cpp - elements written at computed positions ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/OpTable.h"
#include "import/lowering/Scattering.h"
#include "import/lowering/Shapes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace anabranch;
using namespace anabranch::importer;

namespace {
/// The arguments self, dim and index of the scatter family. The index tensor
/// gives the position along `dim`; its shape is the iteration space.
struct Along {
  Operand self, index;
  int64_t dim;
  Value size;

  static FailureOr<Along> of(ir::AtenOp op, LoweringBuilder &b) {
    Along along;
    along.self = atLeast1d(b, b.operand("self"));
    along.index = atLeast1d(b, b.operand("index"));
    int64_t rank = along.self.rank();
    along.dim = dimArg(op, "dim", rank);
    if (along.index.rank() != rank)
      return b.refuse("an index of another rank");
    if (!along.index.dtype.isInt())
      return b.refuse("the index is no integer tensor");
    if (along.self.size(along.dim) == 0)
      return b.refuse("the dimension is empty");
    along.size =
        asIndex(b.builder, b.loc, b.sizeOf(along.self.value, along.dim));
    return along;
  }

  Indices target(Body &body, ArrayRef<Value> point) const {
    Indices position(point);
    position[dim] = indexAt(body, index.value, point, size, /*wrap=*/false);
    return position;
  }
};
} // namespace

/// The part of `src` that is as large as the index tensor.
static Operand covered(LoweringBuilder &b, const Along &along, Operand src) {
  src = atLeast1d(b, src);
  Sizes sizes = b.sizesOf(along.index.value);
  if (src.value.getType() == typeOf(sizes, src.dtype.type) &&
      along.index.type().hasStaticShape())
    return src;
  Sizes zeros(sizes.size(), b.indexAttr(0)), ones(sizes.size(), b.indexAttr(1));
  return b.tensor(
      b.create<tensor::ExtractSliceOp>(src.value, zeros, sizes, ones),
      src.dtype);
}

/// The operator's result. A 0-d tensor was handled as a 1-d one.
static Lowered finished(LoweringBuilder &b, Value value) {
  return lowered(reshape(b.builder, b.loc, value, b.resultSizes()));
}

static Lowered lowerScatterSrc(ir::AtenOp op, LoweringBuilder &b) {
  FailureOr<Along> along = Along::of(op, b);
  if (failed(along))
    return failure();
  return finished(b,
                  scatter(b, along->self, covered(b, *along, b.operand("src")),
                          [&](Body &body, ArrayRef<Value> point, Num,
                              Num update) -> Placed {
                            return {along->target(body, point), update};
                          }));
}

/// Scatters one number. The index tensor stands in for the updates: only its
/// shape and positions count.
static Lowered lowerScatterValue(ir::AtenOp op, LoweringBuilder &b) {
  FailureOr<Along> along = Along::of(op, b);
  if (failed(along))
    return failure();
  auto value = op.getFloatArg("value");
  auto integer = op.getIntArg("value");
  if (!value)
    return b.refuse("the value is symbolic");
  return finished(b, scatter(b, along->self, along->index,
                             [&](Body &body, ArrayRef<Value> point, Num current,
                                 Num) -> Placed {
                               bool isInteger =
                                   integer && !current.dtype.isFloat();
                               return {along->target(body, point),
                                       isInteger ? current.constant(*integer)
                                                 : current.constant(*value)};
                             }));
}

static Lowered merged(ir::AtenOp op, LoweringBuilder &b, StringRef name) {
  FailureOr<Along> along = Along::of(op, b);
  if (failed(along))
    return failure();
  std::optional<Merging> merging = Merging::of(name);
  if (!merging || (merging->isMean && b.resultDType().isBool()))
    return b.refuse("no lowering for the reduction '" + name + "'");
  Operand updates = covered(b, *along, b.operand("src"));
  bool includesSelf = op.getBoolArg("include_self").value_or(true);
  auto target = [&](Body &body, ArrayRef<Value> point) {
    return along->target(body, point);
  };
  if (includesSelf && (name == "sum" || name == "add"))
    return finished(b, scatterSum(b, along->self, updates,
                                  {along->index, along->dim}, target));
  return finished(b, scatterMerged(b, along->self, updates, *merging,
                                   includesSelf, target));
}

static Lowered lowerScatterAdd(ir::AtenOp op, LoweringBuilder &b) {
  return merged(op, b, "sum");
}

static Lowered lowerScatterReduce(ir::AtenOp op, LoweringBuilder &b) {
  return merged(op, b, op.getStringArg("reduce").value_or(""));
}

void anabranch::importer::registerScatter(OpTable &table) {
  table.family("scatter");
  table.add("scatter.src", lowerScatterSrc, "T(3, 4), 1, I(4, 3, 1), T(3, 2)",
            Movable);
  table.add("scatter.value", lowerScatterValue, "T(3, 4), 0, I(3, 2, 4), 2",
            Movable);
  table.add("scatter_add", lowerScatterAdd, "T(3, 4), 1, I(4, 3, 6), T(3, 6)");
  table.add("scatter_reduce.two", lowerScatterReduce,
            "T(3, 4), 1, I(4, 3, 6), T(3, 6), 'sum';"
            "T(3, 4), 1, I(4, 3, 6), T(3, 6), 'amax', include_self=False;"
            "T(3, 4), 1, I(4, 3, 6), T(3, 6), 'mean'");
  table.add("scatter.reduce", lowerScatterReduce,
            "T(3, 4), 1, I(4, 3, 6), T(3, 6), reduce='add'");
}
