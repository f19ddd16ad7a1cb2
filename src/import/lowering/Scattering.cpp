//===- Scattering.cpp - building anabranch.scatter ------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/Scattering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <limits>

using namespace mlir;

namespace anabranch {
namespace importer {

Value scatter(LoweringBuilder &b, Operand init, Operand updates,
              PlaceFn place) {
  OperationState state(b.loc, ir::ScatterOp::getOperationName());
  state.addOperands({init.value, updates.value});
  state.addTypes(init.value.getType());
  state.addRegion();
  auto op = cast<ir::ScatterOp>(b.builder.create(state));
  SmallVector<Type> types(updates.rank(), b.builder.getIndexType());
  types.append({init.dtype.type, updates.dtype.type});
  SmallVector<Location> locations(types.size(), b.loc);
  OpBuilder::InsertionGuard guard(b.builder);
  Block *block = b.builder.createBlock(&op.getBody(), {}, types, locations);
  Body body{b.builder, b.loc};
  ArrayRef<BlockArgument> arguments = block->getArguments();
  Indices point(arguments.drop_back(2));
  Num current{&body, arguments[point.size()], init.dtype};
  Num update{&body, arguments[point.size() + 1], updates.dtype};
  Placed placed = place(body, point, current, update);
  SmallVector<Value> yielded(placed.position);
  yielded.push_back(s::cast(placed.value, init.dtype).value);
  b.create<ir::YieldOp>(yielded);
  return op.getResult();
}

Value scatterWide(LoweringBuilder &b, Operand init, Operand updates,
                  PlaceFn place) {
  DType narrow = init.dtype, wide = narrow.math();
  if (narrow == wide)
    return scatter(b, init, updates, place);
  Operand start = b.tensor(b.convert(init, wide), wide);
  return b.convert(b.tensor(scatter(b, start, updates, place), wide), narrow);
}

//===----------------------------------------------------------------------===//
// Reductions of what meets in an element
//===----------------------------------------------------------------------===//

std::optional<Merging> Merging::of(StringRef name) {
  double infinity = std::numeric_limits<double>::infinity();
  if (name == "sum" || name == "add" || name == "mean")
    return Merging{[](Num a, Num b) { return a + b; }, 0, name == "mean"};
  if (name == "prod" || name == "multiply")
    return Merging{[](Num a, Num b) { return a * b; }, 1};
  if (name == "amax")
    return Merging{s::maximum, -infinity, /*isMean=*/false, /*chooses=*/true};
  if (name == "amin")
    return Merging{s::minimum, infinity, /*isMean=*/false, /*chooses=*/true};
  return std::nullopt;
}

/// The identity, as an element of the dtype of `like`.
static Num identityOf(Num like, double identity) {
  if (like.dtype.isFloat() || identity == 0 || identity == 1)
    return like.constant(identity);
  unsigned width = like.dtype.width();
  bool largest = identity > 0;
  if (like.dtype.isUnsigned || like.dtype.isBool())
    return like.constant(largest ? APInt::getMaxValue(width).getSExtValue()
                                 : int64_t(0));
  return like.constant(largest
                           ? APInt::getSignedMaxValue(width).getSExtValue()
                           : APInt::getSignedMinValue(width).getSExtValue());
}

/// Divides the sum of an element and its updates by their number, as `dtype`.
/// An element without updates stays.
static Value divided(LoweringBuilder &b, Operand sum, Operand counts,
                     DType dtype) {
  return b.elementwiseMixed(
      {sum, counts}, dtype, b.sizesOf(sum.value), [](Body &, ArrayRef<Num> x) {
        Num count = s::maximum(x[1], x[1].constant(1));
        if (x[0].dtype.isFloat())
          return x[0] / s::cast(count, x[0].dtype);
        return s::cast(s::floorDivide(s::cast(x[0], count.dtype), count),
                       x[0].dtype);
      });
}

Value scatterMerged(LoweringBuilder &b, Operand self, Operand updates,
                    const Merging &merging, bool includeSelf, TargetFn target) {
  if (!includeSelf)
    self.value = scatter(
        b, self, updates,
        [&](Body &body, ArrayRef<Value> point, Num current, Num) -> Placed {
          return {target(body, point), identityOf(current, merging.identity)};
        });
  DType math = self.dtype.math();
  auto merge = [&](Body &body, ArrayRef<Value> point, Num current,
                   Num update) -> Placed {
    return {target(body, point),
            merging.combine(s::cast(current, math), s::cast(update, math))};
  };
  if (merging.chooses)
    return scatter(b, self, updates, merge);
  if (!merging.isMean)
    return scatterWide(b, self, updates, merge);
  Operand sum = b.tensor(b.convert(self, math), math);
  sum.value = scatter(b, sum, updates, merge);
  DType wide = DType::integer(b.context(), 64);
  Operand counts =
      b.tensor(b.fill(b.sizesOf(self.value), wide, includeSelf ? 1 : 0), wide);
  counts.value = scatter(
      b, counts, updates,
      [&](Body &body, ArrayRef<Value> point, Num current, Num) -> Placed {
        return {target(body, point), current + current.constant(1)};
      });
  return divided(b, sum, counts, self.dtype);
}

Value indexAt(Body &body, Value tensor, ArrayRef<Value> point, Value size,
              bool wrap) {
  Read read = readSource(tensor);
  Indices indices;
  for (AffineExpr expr : read.map.getResults()) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    indices.push_back(dim ? point[dim.getPosition()]
                          : body.create<arith::ConstantIndexOp>(0));
  }
  Value element =
      body.builder.create<tensor::ExtractOp>(body.loc, read.tensor, indices);
  return checkedIndex(body, element, size, wrap);
}

} // namespace importer
} // namespace anabranch
