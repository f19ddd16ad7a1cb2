//===- Evaluator.cpp - the value of a tensor at an index ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/emit/Evaluator.h"

#include "kernels/emit/BodyEvaluator.h"
#include "kernels/emit/ViewReader.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

namespace {
/// The Evaluator as ViewReader and BodyEvaluator see it.
class EvaluatedElements final : public ElementSource {
public:
  explicit EvaluatedElements(Evaluator &evaluator)
      : ElementSource(evaluator.function), evaluator(evaluator) {}

  Lanes evaluate(Value tensor, ArrayRef<Lanes> index) override {
    return evaluator.evaluate(tensor, index);
  }
  Lanes scalar(Value value) override { return evaluator.scalar(value); }
  Lanes zero(Type element) override { return evaluator.zero(element); }
  SmallVector<Lanes>
  remember(Value key, ArrayRef<Lanes> index,
           llvm::function_ref<SmallVector<Lanes>()> compute) override {
    return evaluator.remember(key, index, compute);
  }

private:
  Evaluator &evaluator;
};
} // namespace

Evaluator::Evaluator(KernelFunction &function, Value status)
    : function(function), lanes(function.lanes), status(status) {}

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
  auto isUniform = [](const Lanes &lane) { return lane.isUniform(); };
  for (const Memory &memory : llvm::reverse(remembered[key]))
    if (ArrayRef<Lanes>(memory.index) == index &&
        (memory.width == lanes.width ||
         (llvm::all_of(index, isUniform) &&
          llvm::all_of(memory.results, isUniform))))
      return memory.results;
  SmallVector<Lanes> results = compute();
  remembered[key].push_back({llvm::to_vector(index), lanes.width, results});
  lanes.atScopeEnd([this, key] { remembered[key].pop_back(); });
  return results;
}

Lanes Evaluator::evaluate(Value tensor, ArrayRef<Lanes> index) {
  auto found = bound.find(tensor);
  if (found != bound.end()) {
    // A copy: the accessor may bind more tensors, which moves the map's
    // entries.
    Accessor accessor = found->second.back();
    return remember(tensor, index,
                    [&] { return SmallVector<Lanes>{accessor(index)}; })[0];
  }
  if (auto argument = dyn_cast<BlockArgument>(tensor)) {
    Buffer buffer = function.argument(argument.getArgNumber());
    return remember(tensor, index, [&] {
      return SmallVector<Lanes>{load(lanes, buffer, index)};
    })[0];
  }
  return evaluateProducer(cast<OpResult>(tensor), index);
}

Lanes Evaluator::evaluateProducer(OpResult result, ArrayRef<Lanes> index) {
  Operation *op = result.getOwner();
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    return evaluateGeneric(generic, result.getResultNumber(), index);
  EvaluatedElements elements(*this);
  if (std::optional<Lanes> element = ViewReader(elements).read(result, index))
    return *element;
  function.fail(op->getLoc(), "result of " + op->getName().getStringRef() +
                                  " can't be evaluated element by element");
  return zero(getElementTypeOrSelf(result.getType()));
}

Lanes Evaluator::evaluateGeneric(linalg::GenericOp op, unsigned result,
                                 ArrayRef<Lanes> index) {
  AffineMap map = op.getIndexingMapsArray()[op.getNumDpsInputs() + result];
  SmallVector<Lanes> point(op.getNumLoops());
  for (auto [position, expr] : llvm::zip(index, map.getResults()))
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      point[dim.getPosition()] = position;
  bool complete =
      llvm::all_of(point, [](const Lanes &lane) { return bool(lane.value); });
  if (!complete) {
    function.fail(op.getLoc(), "a reduction is read where it has no value");
    return zero(getElementTypeOrSelf(op.getResult(result).getType()));
  }
  return remember(op.getResult(0), point,
                  [&] { return evaluateBody(op, point); })[result];
}

Lanes Evaluator::zero(Type element) {
  return Lanes::uniform(
      lanes.constant(cast<TypedAttr>(lanes.builder.getZeroAttr(element))));
}

SmallVector<Lanes> Evaluator::evaluateBody(linalg::GenericOp op,
                                           ArrayRef<Lanes> point,
                                           ArrayRef<Lanes> accumulators) {
  SmallVector<Lanes> arguments;
  unsigned inputs = op.getNumDpsInputs();
  for (auto [number, argument] :
       llvm::enumerate(op.getRegion().getArguments())) {
    if (argument.use_empty()) {
      arguments.push_back(Lanes());
      continue;
    }
    if (number >= inputs && !accumulators.empty()) {
      arguments.push_back(accumulators[number - inputs]);
      continue;
    }
    AffineMap map = op.getIndexingMapsArray()[number];
    arguments.push_back(evaluate(op->getOperand(number), apply(map, point)));
  }
  EvaluatedElements elements(*this);
  return BodyEvaluator(elements, point, status)
      .run(op.getRegion().front(), arguments);
}

SmallVector<Lanes> Evaluator::evaluateRegion(Block &block,
                                             ArrayRef<Lanes> arguments) {
  EvaluatedElements elements(*this);
  return BodyEvaluator(elements, {}, status).run(block, arguments);
}

Lanes Evaluator::evaluateLast(Block &block, ArrayRef<Lanes> arguments) {
  EvaluatedElements elements(*this);
  return BodyEvaluator(elements, {}, status).runForLast(block, arguments);
}

Lanes Evaluator::scalar(Value operand) {
  if (Value scalar = function.scalar(operand))
    return Lanes::uniform(scalar);
  TypedAttr attr;
  if (matchPattern(operand, m_Constant(&attr)))
    return Lanes::uniform(lanes.constant(attr));
  function.fail(operand.getLoc(), "body reads a value that the kernel lacks");
  return zero(operand.getType());
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
    function.fail(lanes.loc, "indexing map has a symbol");
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
    function.fail(lanes.loc, "indexing map is not affine");
    return lanes.indexLanes(0);
  }
}

} // namespace kernels
} // namespace anabranch
