//===- Moves.cpp - generics that move elements without a change -----------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/Moves.h"

#include "import/lowering/Shapes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;

namespace anabranch {
namespace importer {

Value forEachPoint(LoweringBuilder &b, Type element,
                   ArrayRef<OpFoldResult> sizes, ArrayRef<Read> reads,
                   PointFn body) {
  int64_t rank = sizes.size();
  SmallVector<Value> inputs;
  SmallVector<AffineMap> maps;
  for (const Read &read : reads) {
    inputs.push_back(read.tensor);
    maps.push_back(read.map);
  }
  maps.push_back(b.builder.getMultiDimIdentityMap(rank));
  Value init = b.create<tensor::EmptyOp>(sizes, element);
  SmallVector<utils::IteratorType> iterators(rank,
                                             utils::IteratorType::parallel);
  auto generic = b.create<linalg::GenericOp>(
      TypeRange{init.getType()}, inputs, ValueRange{init}, maps, iterators,
      [&](OpBuilder &nested, Location loc, ValueRange arguments) {
        Body inner{nested, loc};
        // This builder has no listener, which would otherwise remember
        // operations that are erased below.
        OpBuilder silent(nested.getContext());
        silent.setInsertionPointToEnd(nested.getInsertionBlock());
        Indices position;
        for (int64_t dim = 0; dim < rank; ++dim)
          position.push_back(silent.create<linalg::IndexOp>(loc, dim));
        SmallVector<Value> elements(arguments.drop_back());
        Value result = body(inner, position, elements);
        nested.create<linalg::YieldOp>(loc, result);
        for (Value index : position)
          if (index.use_empty())
            index.getDefiningOp()->erase();
      });
  return generic.getResult(0);
}

Value gatherElements(LoweringBuilder &b, Value source,
                     ArrayRef<OpFoldResult> sizes, ArrayRef<Read> reads,
                     SourceFn from) {
  return forEachPoint(b,
                      cast<RankedTensorType>(source.getType()).getElementType(),
                      sizes, reads,
                      [&](Body &body, ArrayRef<Value> position,
                          ArrayRef<Value> elements) -> Value {
                        Indices indices = from(body, position, elements);
                        return body.builder.create<tensor::ExtractOp>(
                            body.loc, source, indices);
                      });
}

Value readThrough(LoweringBuilder &b, Value source, AffineMap map,
                  ArrayRef<OpFoldResult> sizes) {
  Type element = cast<RankedTensorType>(source.getType()).getElementType();
  Value init = b.create<tensor::EmptyOp>(sizes, element);
  SmallVector<utils::IteratorType> iterators(sizes.size(),
                                             utils::IteratorType::parallel);
  auto generic = b.create<linalg::GenericOp>(
      TypeRange{init.getType()}, ValueRange{source}, ValueRange{init},
      ArrayRef<AffineMap>{map, b.builder.getMultiDimIdentityMap(sizes.size())},
      iterators, [](OpBuilder &nested, Location loc, ValueRange arguments) {
        nested.create<linalg::YieldOp>(loc, arguments.front());
      });
  return generic.getResult(0);
}

Read readSource(Value tensor) {
  unsigned rank = cast<RankedTensorType>(tensor.getType()).getRank();
  AffineMap map = AffineMap::getMultiDimIdentityMap(rank, tensor.getContext());
  auto view = tensor.getDefiningOp<linalg::GenericOp>();
  if (!view || view.getNumDpsInputs() != 1 || view.getNumResults() != 1 ||
      view.getNumReductionLoops() != 0)
    return {tensor, map};
  AffineMap source = view.getIndexingMapsArray().front();
  Operation &first = view.getBody()->front();
  if (!first.hasTrait<OpTrait::IsTerminator>() ||
      first.getOperand(0) != view.getBody()->getArgument(0) ||
      !view.getIndexingMapsArray().back().isIdentity() ||
      !source.isProjectedPermutation(/*allowZeroInResults=*/true))
    return {tensor, map};
  return {view.getDpsInputOperand(0)->get(), source};
}

Value transpose(LoweringBuilder &b, Value tensor, ArrayRef<int64_t> order) {
  auto type = cast<RankedTensorType>(tensor.getType());
  Sizes source = sizesOf(b.builder, b.loc, tensor);
  Sizes sizes;
  SmallVector<AffineExpr> exprs(order.size());
  int64_t lastWide = -1;
  bool inOrder = true;
  for (auto [to, from] : llvm::enumerate(order)) {
    sizes.push_back(source[from]);
    exprs[from] = b.builder.getAffineDimExpr(to);
    if (type.getDimSize(from) == 1)
      continue;
    inOrder &= from > lastWide;
    lastWide = from;
  }
  // Moving dimensions of size one moves no element.
  if (inOrder)
    return reshape(b.builder, b.loc, tensor, sizes);
  return readThrough(
      b, tensor, AffineMap::get(order.size(), 0, exprs, b.context()), sizes);
}

Value moveChannels(LoweringBuilder &b, Value tensor, ir::Channels channels) {
  int64_t rank = cast<RankedTensorType>(tensor.getType()).getRank();
  // Dimension i of the result is dimension order[i].
  SmallVector<int64_t> order = {0};
  llvm::append_range(order, channels == ir::Channels::Last
                                ? llvm::seq<int64_t>(2, rank)
                                : llvm::seq<int64_t>(1, rank - 1));
  order.insert(channels == ir::Channels::Last ? order.end() : order.begin() + 1,
               channels == ir::Channels::Last ? 1 : rank - 1);
  Sizes source = sizesOf(b.builder, b.loc, tensor), sizes;
  SmallVector<AffineExpr> exprs(rank);
  for (auto [to, from] : llvm::enumerate(order)) {
    sizes.push_back(source[from]);
    exprs[from] = b.builder.getAffineDimExpr(to);
  }
  Value view = readThrough(b, tensor,
                           AffineMap::get(rank, 0, exprs, b.context()), sizes);
  ir::markChannels(view.getDefiningOp(), channels);
  return view;
}

bool comesWithChannelsLast(Value tensor) {
  auto rankOf = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type ? type.getRank() : 0;
  };
  SmallVector<Value> open = {tensor};
  llvm::SmallDenseSet<Value> seen = {tensor};
  // Chains of pointwise work between two convolutions are short.
  constexpr size_t most = 64;
  while (!open.empty() && seen.size() < most) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op)
      continue;
    if (ir::channelsOf(op) == ir::Channels::Second)
      return true;
    auto generic = dyn_cast<linalg::GenericOp>(op);
    bool keepsOrder =
        generic ? generic.getNumReductionLoops() == 0 && !ir::channelsOf(op)
                : isa<tensor::ExtractSliceOp, tensor::InsertSliceOp>(op);
    for (Value operand : op->getOperands())
      if (keepsOrder && rankOf(operand) == rankOf(tensor) &&
          seen.insert(operand).second)
        open.push_back(operand);
  }
  return false;
}

Value insertAt(LoweringBuilder &b, Value part, Value whole,
               ArrayRef<int64_t> dims, ArrayRef<int64_t> places) {
  Sizes sizes = b.sizesOf(whole);
  Sizes offsets(sizes.size(), b.indexAttr(0));
  Sizes strides(sizes.size(), b.indexAttr(1));
  for (auto [dim, place] : llvm::zip(dims, places)) {
    offsets[dim] = b.indexAttr(place);
    sizes[dim] = b.indexAttr(1);
  }
  return b.create<tensor::InsertSliceOp>(b.unsqueeze(part, dims), whole,
                                         offsets, sizes, strides);
}

AffineMap broadcastMap(RankedTensorType type, int64_t offset,
                       ArrayRef<OpFoldResult> sizes) {
  Builder builder(type.getContext());
  SmallVector<AffineExpr> exprs;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    bool repeats = type.getDimSize(dim) == 1 &&
                   !isConstantIntValue(sizes[offset + dim], 1);
    exprs.push_back(repeats ? builder.getAffineConstantExpr(0)
                            : builder.getAffineDimExpr(offset + dim));
  }
  return AffineMap::get(sizes.size(), 0, exprs, type.getContext());
}

Value broadcastTo(LoweringBuilder &b, Value tensor,
                  ArrayRef<OpFoldResult> sizes) {
  auto type = cast<RankedTensorType>(tensor.getType());
  AffineMap map = broadcastMap(type, sizes.size() - type.getRank(), sizes);
  if (map.isIdentity())
    return tensor;
  return readThrough(b, tensor, map, sizes);
}

Value checkedIndex(Body &body, Value element, Value size, bool wrap) {
  OpBuilder &builder = body.builder;
  Location loc = body.loc;
  Value index = element;
  if (!element.getType().isIndex())
    index = builder.create<arith::IndexCastOp>(loc, builder.getIndexType(),
                                               element);
  Value zero = builder.create<arith::ConstantIndexOp>(loc, 0);
  if (wrap) {
    Value negative = builder.create<arith::CmpIOp>(
        loc, arith::CmpIPredicate::slt, index, zero);
    Value fromEnd = builder.create<arith::AddIOp>(loc, index, size);
    index = builder.create<arith::SelectOp>(loc, negative, fromEnd, index);
  }
  // As unsigned numbers, negative indices are too large too.
  Value inside = builder.create<arith::CmpIOp>(loc, arith::CmpIPredicate::ult,
                                               index, size);
  s::checkIndex({&body, inside, DType::boolean(builder.getContext())});
  return builder.create<arith::SelectOp>(loc, inside, index, zero);
}

OpFoldResult intArg(LoweringBuilder &b, ir::AtenOp op, StringRef name) {
  if (Value operand = op.getOperandArg(name))
    return operand;
  if (auto literal = op.getIntArg(name))
    return b.builder.getIndexAttr(*literal);
  return {};
}

OpFoldResult wrapStart(LoweringBuilder &b, OpFoldResult start,
                       OpFoldResult size) {
  OpFoldResult zero = b.builder.getIndexAttr(0);
  if (!start)
    return zero;
  bool bothStatic =
      getConstantIntValue(start) && getConstantIntValue(size).has_value();
  if (isNonNegative(start)) {
    // A start after the end makes an empty slice, whose offset is not used. So
    // a symbolic size needs no clamping.
    return bothStatic ? minSizes(b.builder, b.loc, start, size) : start;
  }
  OpFoldResult fromEnd =
      maxSizes(b.builder, b.loc, addSizes(b.builder, b.loc, start, size), zero);
  if (getConstantIntValue(start))
    return fromEnd;
  Value value = asIndex(b.builder, b.loc, start);
  Value isNegative = b.create<arith::CmpIOp>(arith::CmpIPredicate::slt, value,
                                             asIndex(b.builder, b.loc, zero));
  Value wrapped = b.create<arith::SelectOp>(
      isNegative, asIndex(b.builder, b.loc, fromEnd), value);
  return minSizes(b.builder, b.loc, wrapped, size);
}

Operand atLeast1d(LoweringBuilder &b, Operand tensor) {
  if (tensor.rank() == 0)
    tensor.value = reshape(b.builder, b.loc, tensor.value, {b.indexAttr(1)});
  return tensor;
}

int64_t dimArg(ir::AtenOp op, StringRef name, int64_t rank, int64_t otherwise) {
  return LoweringBuilder::wrapDim(op.getIntArg(name).value_or(otherwise), rank);
}

} // namespace importer
} // namespace anabranch
