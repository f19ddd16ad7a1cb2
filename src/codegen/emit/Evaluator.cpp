//===- Evaluator.cpp - the value of a tensor at an index ------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/emit/Evaluator.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

Evaluator::Evaluator(KernelFrame &frame, Value status)
    : frame(frame), lanes(frame.lanes), status(status) {}

void Evaluator::bind(Value tensor, Accessor accessor) {
  bound[tensor].push_back(std::move(accessor));
  lanes.atScopeEnd([this, tensor] {
    auto found = bound.find(tensor);
    found->second.pop_back();
    if (found->second.empty())
      bound.erase(found);
  });
}

void Evaluator::bind(Value tensor, Buffer buffer) {
  bind(tensor, [this, buffer](ArrayRef<Lanes> index) {
    return load(lanes, buffer, index);
  });
}

SmallVector<Lanes>
Evaluator::remember(Value key, ArrayRef<Lanes> index,
                    llvm::function_ref<SmallVector<Lanes>()> compute) {
  for (const Memory &memory : llvm::reverse(remembered[key]))
    if (memory.width == lanes.width && ArrayRef<Lanes>(memory.index) == index)
      return memory.results;
  SmallVector<Lanes> results = compute();
  remembered[key].push_back({llvm::to_vector(index), lanes.width, results});
  lanes.atScopeEnd([this, key] { remembered[key].pop_back(); });
  return results;
}

Lanes Evaluator::evaluate(Value tensor, ArrayRef<Lanes> index) {
  auto found = bound.find(tensor);
  if (found != bound.end()) {
    // Copied, since evaluating may bind more and move the map's entries.
    Accessor accessor = found->second.back();
    return remember(tensor, index,
                    [&] { return SmallVector<Lanes>{accessor(index)}; })[0];
  }
  if (auto argument = dyn_cast<BlockArgument>(tensor)) {
    Buffer buffer = frame.argument(argument.getArgNumber());
    return remember(tensor, index, [&] {
      return SmallVector<Lanes>{load(lanes, buffer, index)};
    })[0];
  }
  return evaluateProducer(cast<OpResult>(tensor), index);
}

SmallVector<Lanes> Evaluator::apply(AffineMap map, ArrayRef<Lanes> point) {
  SmallVector<Lanes> results;
  for (AffineExpr expr : map.getResults())
    results.push_back(evaluateExpr(expr, point));
  return results;
}

Lanes Evaluator::evaluateExpr(AffineExpr expr, ArrayRef<Lanes> point) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return point[dim.getPosition()];
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return lanes.indexLanes(constant.getValue());
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary) {
    frame.fail(lanes.loc, "indexing map has a symbol");
    return lanes.indexLanes(0);
  }
  Lanes left = evaluateExpr(binary.getLHS(), point);
  Lanes right = evaluateExpr(binary.getRHS(), point);
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return lanes.add(left, right);
  case AffineExprKind::Mul:
    return lanes.mul(left, right);
  case AffineExprKind::FloorDiv:
    return lanes.divRem(left, right.value).first;
  case AffineExprKind::Mod:
    return lanes.divRem(left, right.value).second;
  case AffineExprKind::CeilDiv: {
    Lanes less = lanes.sub(right, lanes.indexLanes(1));
    return lanes.divRem(lanes.add(left, less), right.value).first;
  }
  default:
    frame.fail(lanes.loc, "indexing map is not affine");
    return lanes.indexLanes(0);
  }
}

} // namespace codegen
} // namespace anabranch
