//===- Views.cpp - reshapes, permutations and broadcasts ------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// At this level a view is a value like any other: capture has resolved
// PyTorch's strides and aliases. So a reshape always follows the row-major
// order of the elements.

#include "import/lowering/Moves.h"
#include "import/lowering/OpTable.h"
#include "import/lowering/Shapes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace anabranch;
using namespace anabranch::importer;

/// view, squeeze, unsqueeze and all other operators that keep the row-major
/// order.
static Lowered lowerReshape(ir::AtenOp op, LoweringBuilder &b) {
  return lowered(
      reshape(b.builder, b.loc, op.getOperandArg("self"), op.getResultSizes()));
}

static Lowered lowerPermute(ir::AtenOp op, LoweringBuilder &b) {
  Value self = op.getOperandArg("self");
  int64_t rank = cast<RankedTensorType>(self.getType()).getRank();
  auto dims = op.getIntListArg("dims");
  if (!dims)
    return b.refuse("dims are not literals");
  for (int64_t &dim : *dims)
    dim = LoweringBuilder::wrapDim(dim, rank);
  return lowered(transpose(b, self, *dims));
}

static Lowered swapDims(ir::AtenOp op, LoweringBuilder &b, int64_t first,
                        int64_t second) {
  Value self = op.getOperandArg("self");
  int64_t rank = cast<RankedTensorType>(self.getType()).getRank();
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (rank > 1)
    std::swap(order[first], order[second]);
  return lowered(transpose(b, self, order));
}

static Lowered lowerTranspose(ir::AtenOp op, LoweringBuilder &b) {
  int64_t rank = b.operand("self").rank();
  return swapDims(op, b, dimArg(op, "dim0", rank), dimArg(op, "dim1", rank));
}

static Lowered lowerT(ir::AtenOp op, LoweringBuilder &b) {
  return swapDims(op, b, 0, 1);
}

static Lowered lowerExpand(ir::AtenOp op, LoweringBuilder &b) {
  return lowered(broadcastTo(b, op.getOperandArg("self"), op.getResultSizes()));
}

/// repeat: adds a dimension beside each repeated one, broadcasts, and merges.
static Lowered lowerRepeat(ir::AtenOp op, LoweringBuilder &b) {
  Value self = op.getOperandArg("self");
  Sizes repeats = op.getSizeListArg("repeats");
  Sizes source = sizesOf(b.builder, b.loc, self);
  int64_t added = repeats.size() - source.size();
  Sizes wide;
  SmallVector<AffineExpr> exprs;
  for (auto [dim, repeat] : llvm::enumerate(repeats)) {
    if (!isConstantIntValue(repeat, 1))
      wide.push_back(repeat);
    if (static_cast<int64_t>(dim) < added)
      continue;
    exprs.push_back(b.builder.getAffineDimExpr(wide.size()));
    wide.push_back(source[dim - added]);
  }
  AffineMap map = AffineMap::get(wide.size(), 0, exprs, b.context());
  Value broadcast = map.isIdentity() ? self : readThrough(b, self, map, wide);
  return lowered(reshape(b.builder, b.loc, broadcast, op.getResultSizes()));
}

/// The source of a view as another type, if this is a view of that view as its
/// own type again. A byte other than 0 and 1 would not survive as bool.
static Value viewedTwice(ir::AtenOp op) {
  auto other = op.getOperandArg("self").getDefiningOp<ir::AtenOp>();
  if (!other || other.getCallee() != op.getCallee())
    return Value();
  Value source = other.getOperandArg("self");
  return source.getType() == op.getResult(0).getType() ? source : Value();
}

/// view.dtype, for types of the same width: the same bits as another type.
static Lowered lowerBitcast(ir::AtenOp op, LoweringBuilder &b) {
  if (Value source = viewedTwice(op))
    return lowered(source);
  Value self = op.getOperandArg("self");
  DType from = b.operand("self").dtype, to = b.resultDType();
  if (from.isBool() || to.isBool() || from.width() != to.width())
    return b.refuse("the dtypes differ in width");
  if (from.type == to.type)
    return lowered(self);
  Sizes sizes = op.getResultSizes();
  AffineMap identity = b.builder.getMultiDimIdentityMap(sizes.size());
  return lowered(forEachPoint(
      b, to.type, sizes, {{self, identity}},
      [&](Body &body, ArrayRef<Value>, ArrayRef<Value> elements) -> Value {
        return body.create<arith::BitcastOp>(to.type, elements[0]);
      }));
}

void anabranch::importer::registerViews(OpTable &table) {
  table.family("view", Movable);
  table.add("view", lowerReshape, "T(4, 6), [3, 8]; T(4, 6), [2, 2, -1]");
  table.add("_unsafe_view", lowerReshape, "T(4, 6), [24]");
  table.add("reshape", lowerReshape);
  table.add("_reshape_alias", lowerReshape);
  table.add("view_copy", lowerReshape);
  table.add("squeeze", lowerReshape, "T(1, 4, 1)");
  table.add("squeeze.dim", lowerReshape, "T(1, 4, 1), 0");
  table.add("squeeze.dims", lowerReshape, "T(1, 4, 1), [0, 2]");
  table.add("unsqueeze", lowerReshape, "T(4, 6), 1; T(4, 6), -1");
  table.add("flatten.using_ints", lowerReshape);
  table.add("permute", lowerPermute, "T(2, 3, 4), [2, 0, 1]");
  table.add("transpose.int", lowerTranspose, "T(2, 3, 4), 0, -1");
  table.add("t", lowerT, "T(3, 4); T(3)");
  table.add("expand", lowerExpand, "T(3, 1), [2, 3, 4]; T(4), [3, -1]");
  table.add("repeat", lowerRepeat, "T(3, 4), [2, 1, 3]; T(4), [5]");
  table.add("view.dtype", lowerBitcast);
}
