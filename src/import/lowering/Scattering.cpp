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
// Sums along one dimension
//===----------------------------------------------------------------------===//

static Num scaledBy(Num update, double scale, DType math) {
  Num scaled = s::cast(update, math);
  return scale == 1 ? scaled : scaled * scaled.constant(scale);
}

/// Whether comparing every two updates of a line takes less time than a
/// conversion of the whole tensor.
static bool areFew(Operand self, Operand updates, int64_t dim) {
  return self.dtype != self.dtype.math() && self.type().hasStaticShape() &&
         updates.type().hasStaticShape() &&
         updates.type().getNumElements() * updates.size(dim) <=
             self.type().getNumElements();
}

/// The updates with the sum of those that meet in an element in the place of
/// the first of them, and zeros in the places of the others, as `math`.
static Operand mergedIntoFirst(LoweringBuilder &b, Operand updates,
                               const Places &places, double scale, DType math) {
  int64_t rank = updates.rank(), dim = places.dim;
  // The last of these dimensions is added: it runs over the updates of a line.
  SmallVector<int64_t> own = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (places.index.rank() == 1)
    own = {dim};
  auto other = [&](SmallVector<int64_t> dims) {
    std::replace(dims.begin(), dims.end(), dim, rank);
    return dims;
  };
  SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  Sizes pairs = b.sizesOf(updates.value);
  pairs.push_back(pairs[dim]);
  Operand index = places.index;
  Operand mine = b.tensor(index.value, index.dtype, own);
  Operand others = b.tensor(index.value, index.dtype, other(own));
  Value sums = b.reduce(
      {b.tensor(updates.value, updates.dtype, other(all)), mine, others}, pairs,
      {rank}, Combine::Add, math, [&](Body &, ArrayRef<Num> x) {
        Num scaled = scaledBy(x[0], scale, math);
        return s::select(x[1] == x[2], scaled, scaled.constant(-0.0));
      });
  DType wide = DType::integer(b.context(), 64);
  Value earlier = b.reduce({mine, others}, pairs, {rank}, Combine::Add, wide,
                           [&](Body &body, ArrayRef<Num> x) {
                             Num isBefore =
                                 s::index(body, rank) < s::index(body, dim);
                             return s::cast((x[0] == x[1]) & isBefore, wide);
                           });
  Operand sum = b.tensor(sums, math), count = b.tensor(earlier, wide);
  return b.tensor(
      b.elementwiseMixed({sum, count}, math, b.sizesOf(updates.value),
                         [](Body &, ArrayRef<Num> x) {
                           return s::select(x[1] == x[1].constant(0), x[0],
                                            x[0].constant(-0.0));
                         }),
      math);
}

Value scatterSum(LoweringBuilder &b, Operand self, Operand updates,
                 const Places &places, TargetFn target, double scale) {
  DType math = self.dtype.math();
  auto add = [&](double by) {
    return [target, math, by](Body &body, ArrayRef<Value> point, Num current,
                              Num update) -> Placed {
      return {target(body, point),
              s::cast(current, math) + scaledBy(update, by, math)};
    };
  };
  if (!areFew(self, updates, places.dim))
    return scatterWide(b, self, updates, add(scale));
  Operand merged = mergedIntoFirst(b, updates, places, scale, math);
  return scatter(b, self, merged, add(1));
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
