//===- PackConstants.cpp - weights in the layout of kernels ---------------===//
// SPDX-License-Identifier: Apache-2.0
//
//   %0 = contraction %x, %w      %p = generic {gather} %w -> panels
//                            ->  %v = extract_slice (collapse (transpose %p))
//                                %0 = contraction %x, %v
//
// %p depends on steady values only, so `initialize` makes it. %v equals %w,
// element by element: any kernel of the contraction can read it. The kernel
// that reads panels recognises them in the indices of its reads.

#include "ir/QuantizedWeight.h"
#include "schedule/weights/PackPass.h"
#include "schedule/weights/Passes.h"
#include "schedule/weights/SteadyValues.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;

namespace anabranch {
namespace schedule {
namespace {

int64_t bytesOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (!type.hasStaticShape() || !type.getElementType().isIntOrFloat())
    return -1;
  return type.getNumElements() * type.getElementTypeBitWidth() / 8;
}

class ConstantPacker {
public:
  explicit ConstantPacker(func::FuncOp main)
      : b(main.getContext()), steady(main) {}

  void pack(linalg::GenericOp op, const PanelLayout &chosen) {
    layout = chosen;
    operand = &op->getOpOperand(layout.operand);
    AffineMap map = op.getMatchingIndexingMap(operand);
    if (ir::quantizedWeightOf(operand->get().getDefiningOp()) ||
        !steady.contains(operand->get()) || !pays())
      return;
    Value &view = packed[{operand->get(), map, layout.column, layout.kPack}];
    if (!view) {
      b.setInsertionPoint(op);
      measure(map);
      view = unpack(gather(map));
    }
    SmallVector<unsigned> loops(layout.batch);
    loops.append({layout.column, layout.depth});
    replaceOperand(op, layout.operand, view, loops);
  }

private:
  /// An operand that repeats a small tensor does not gain from a packed copy.
  bool pays() {
    Operation *op = operand->get().getDefiningOp();
    int64_t read = bytesOf(operand->get());
    while (op && classify(op) == OpKind::Cloned) {
      int64_t largest = 0;
      Value source;
      for (Value input : op->getOperands())
        if (isa<RankedTensorType>(input.getType()) &&
            bytesOf(input) > largest &&
            !isa_and_nonnull<tensor::EmptyOp>(input.getDefiningOp())) {
          largest = bytesOf(input);
          source = input;
        }
      if (!source)
        return false; // a literal
      read = std::min(read, largest);
      op = source.getDefiningOp();
    }
    return bytesOf(operand->get()) <= 2 * read;
  }

  /// Computes the operand's sizes and the shape of its panels.
  void measure(AffineMap map) {
    auto type = cast<RankedTensorType>(operand->get().getType());
    auto sizeOf = [&](unsigned loop) {
      return type.getDimSize(*map.getResultPosition(b.getAffineDimExpr(loop)));
    };
    columns = sizeOf(layout.column);
    depths = sizeOf(layout.depth);
    batch.clear();
    for (unsigned loop : layout.batch)
      batch.push_back(sizeOf(loop));
    shape = batch;
    shape.append({(columns + layout.width - 1) / layout.width,
                  (depths + layout.kPack - 1) / layout.kPack, layout.width});
    if (layout.kPack > 1)
      shape.push_back(layout.kPack);
  }

  Type element() { return getElementTypeOrSelf(operand->get().getType()); }

  /// A generic whose body reads the operand at the place of each packed
  /// element.
  Value gather(AffineMap map) {
    Location loc = operand->getOwner()->getLoc();
    Value empty = b.create<tensor::EmptyOp>(loc, shape, element());
    SmallVector<utils::IteratorType> loops(shape.size(),
                                           utils::IteratorType::parallel);
    auto body = [&](OpBuilder &inner, Location loc, ValueRange) {
      inner.create<linalg::YieldOp>(loc, extract(inner, loc, map));
    };
    return b
        .create<linalg::GenericOp>(
            loc, empty.getType(), ValueRange{}, ValueRange{empty},
            AffineMap(b.getMultiDimIdentityMap(shape.size())), loops, body)
        .getResult(0);
  }

  Value extract(OpBuilder &inner, Location loc, AffineMap map) {
    auto constant = [&](int64_t value) -> Value {
      return inner.create<arith::ConstantIndexOp>(loc, value);
    };
    Value inside;
    auto position = [&](Value outer, int64_t factor, Value rest, int64_t size) {
      Value at = inner.create<arith::MulIOp>(loc, outer, constant(factor));
      if (rest)
        at = inner.create<arith::AddIOp>(loc, at, rest);
      if (size % factor == 0)
        return at;
      Value fits = inner.create<arith::CmpIOp>(loc, arith::CmpIPredicate::slt,
                                               at, constant(size));
      inside = inside ? inner.create<arith::AndIOp>(loc, inside, fits) : fits;
      Value last = constant(size - 1);
      return inner.create<arith::MinSIOp>(loc, at, last).getResult();
    };
    size_t first = batch.size();
    auto index = [&](size_t i) -> Value {
      return inner.create<linalg::IndexOp>(loc, i);
    };
    Value column =
        position(index(first), layout.width, index(first + 2), columns);
    Value depth =
        position(index(first + 1), layout.kPack,
                 layout.kPack > 1 ? index(first + 3) : Value(), depths);
    SmallVector<Value> at;
    for (AffineExpr expr : map.getResults()) {
      unsigned loop = cast<AffineDimExpr>(expr).getPosition();
      const auto *found = llvm::find(layout.batch, loop);
      at.push_back(loop == layout.column ? column
                   : loop == layout.depth
                       ? depth
                       : index(found - layout.batch.begin()));
    }
    Value value = inner.create<tensor::ExtractOp>(loc, operand->get(), at);
    if (!inside)
      return value;
    Value zero = inner.create<arith::ConstantOp>(
        loc, cast<TypedAttr>(inner.getZeroAttr(element())));
    return inner.create<arith::SelectOp>(loc, inside, value, zero);
  }

  /// The panels, permuted to [batch..., column, depth].
  Value unpack(Value panels) {
    Location loc = panels.getLoc();
    size_t first = batch.size(), rank = shape.size();
    // [.., panel, depth, column, (half)] -> [.., panel, column, depth, (half)].
    SmallVector<unsigned> order;
    for (size_t i = 0; i < rank; ++i)
      order.push_back(i);
    std::swap(order[first + 1], order[first + 2]);
    SmallVector<int64_t> swapped(shape);
    std::swap(swapped[first + 1], swapped[first + 2]);
    Value view = permuted(b, panels, order,
                          getAsIndexOpFoldResult(b.getContext(), swapped))
                     .getResult(0);
    SmallVector<ReassociationIndices> groups;
    for (size_t i = 0; i < first; ++i)
      groups.push_back({int64_t(i)});
    int64_t next = first;
    groups.push_back({next, next + 1});
    groups.push_back({next + 2});
    if (layout.kPack > 1)
      groups.back().push_back(next + 3);
    view = b.create<tensor::CollapseShapeOp>(loc, view, groups);
    SmallVector<int64_t> sizes(batch);
    sizes.append({columns, depths});
    auto whole = cast<RankedTensorType>(view.getType());
    if (whole.getShape() == ArrayRef(sizes))
      return view;
    SmallVector<OpFoldResult> zeros(sizes.size(), b.getIndexAttr(0));
    SmallVector<OpFoldResult> ones(sizes.size(), b.getIndexAttr(1));
    return b.create<tensor::ExtractSliceOp>(
        loc, view, zeros, getAsIndexOpFoldResult(b.getContext(), sizes), ones);
  }

  OpBuilder b;
  SteadyValues steady;
  /// Panels by operand, map, column loop and K-pack factor. Readers with one
  /// key share them, in the layout of the first reader.
  DenseMap<std::tuple<Value, AffineMap, unsigned, int64_t>, Value> packed;
  /// The layout for the current operand.
  PanelLayout layout;
  OpOperand *operand = nullptr;
  int64_t columns = 0, depths = 0;
  SmallVector<int64_t> batch, shape;
};

} // namespace
} // namespace schedule

std::unique_ptr<Pass> createPackConstantsPass(ChoosePanels choose) {
  return schedule::makePackPass<schedule::ConstantPacker>(
      "anabranch-pack-constants",
      "packs steady operands of matrix products in initialize",
      std::move(choose));
}

} // namespace anabranch
