//===- PaddedBody.cpp - a loop over padded dimensions ---------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/padding/PaddedBody.h"

#include "ir/Anabranch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace anabranch {

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

std::string PaddedBody::labelLoops() {
  loops.assign(op.getNumLoops(), {});
  SmallVector<bool> known(op.getNumLoops());
  auto forEachDim = [&](auto visit) {
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isa<RankedTensorType>(operand.get().getType()))
        continue;
      AffineMap map = op.getMatchingIndexingMap(&operand);
      for (auto [dim, expr] : llvm::enumerate(map.getResults()))
        visit(facts.at(operand.get()).labels[dim], expr);
    }
  };
  std::string wrong;
  forEachDim([&](const SizeLabel &label, AffineExpr expr) {
    auto loop = dyn_cast<AffineDimExpr>(expr);
    if (!loop)
      return;
    unsigned number = loop.getPosition();
    if (known[number] && (isPadded(label) || isPadded(loops[number])) &&
        loops[number] != label)
      wrong = "it takes a padded dimension for one of another size";
    loops[number] = label;
    known[number] = true;
  });
  // A window, or a dimension of which only one position is read.
  forEachDim([&](const SizeLabel &label, AffineExpr expr) {
    if (isa<AffineDimExpr>(expr))
      return;
    auto constant = dyn_cast<AffineConstantExpr>(expr);
    bool moves = isPadded(label) && (!constant || constant.getValue() != 0);
    for (unsigned loop = 0; loop < loops.size(); ++loop)
      moves |= expr.isFunctionOfDim(loop) && isPadded(loops[loop]);
    if (moves)
      wrong = "it reads neighbours along the padded dimension";
  });
  return wrong;
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

PaddedBody::Scalar PaddedBody::argument(unsigned number,
                                        std::optional<unsigned> padded) {
  OpOperand &operand = op->getOpOperand(number);
  Scalar scalar;
  auto known = facts.find(operand.get());
  if (known == facts.end() || op.isDpsInit(&operand))
    return scalar;
  AffineMap map = op.getMatchingIndexingMap(&operand);
  for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
    auto loop = dyn_cast<AffineDimExpr>(expr);
    if (!loop)
      continue;
    if (known->second.position == dim)
      scalar.loop = loop.getPosition();
    if (padded == loop.getPosition() && known->second.padding[dim])
      scalar.constant = known->second.padding[dim];
  }
  return scalar;
}

PaddedBody::Scalar PaddedBody::outside(Value value) {
  Scalar scalar;
  if (!matchPattern(value, m_Constant(&scalar.constant)))
    scalar.isTainted = sizes.dependsOnSymbol(value);
  return scalar;
}

/// The result of comparing a coordinate with zero, or with the size of its
/// dimension.
std::optional<bool> PaddedBody::compare(Operation &inner, Scalars &scalars) {
  auto compare = dyn_cast<arith::CmpIOp>(inner);
  if (!compare)
    return std::nullopt;
  const Scalar &left = scalars[compare.getLhs()];
  const Scalar &right = scalars[compare.getRhs()];
  if (!left.loop)
    return std::nullopt;
  using Predicate = arith::CmpIPredicate;
  Predicate predicate = compare.getPredicate();
  auto zero = dyn_cast_or_null<IntegerAttr>(right.constant);
  if (zero && zero.getValue().isZero() && predicate == Predicate::slt)
    return false;
  if (zero && zero.getValue().isZero() && predicate == Predicate::sge)
    return true;
  auto label = sizes.of(compare.getRhs());
  if (!label || *label != loops[*left.loop])
    return std::nullopt;
  if (predicate == Predicate::slt || predicate == Predicate::ult)
    return true;
  if (predicate == Predicate::sge || predicate == Predicate::uge)
    return false;
  return std::nullopt;
}

/// A gather: an element at a computed position. If dimensions are padded, it
/// must read them at coordinates of equal dimensions.
std::string PaddedBody::gather(Operation &inner, std::optional<unsigned> padded,
                               Scalars &scalars) {
  auto extract = cast<tensor::ExtractOp>(inner);
  const TensorFacts &table = facts.at(extract.getTensor());
  Scalar made;
  for (auto [dim, index] : llvm::enumerate(extract.getIndices())) {
    const Scalar &at = scalars[index];
    if (at.isTainted)
      return "it reads at a place that depends on the padded size";
    if (!isPadded(table.labels[dim]))
      continue;
    if (!at.loop || loops[*at.loop] != table.labels[dim])
      return "it reads at computed places of the padded dimension";
    if (padded == *at.loop)
      made.constant = table.padding[dim];
  }
  scalars[extract] = made;
  return "";
}

std::string PaddedBody::apply(Operation &inner, std::optional<unsigned> padded,
                              Scalars &scalars) {
  for (Value operand : inner.getOperands())
    if (operand.getType().isIntOrIndexOrFloat() && !scalars.contains(operand))
      scalars[operand] = outside(operand);
  if (isa<tensor::ExtractOp>(inner))
    return gather(inner, padded, scalars);
  if (auto check = dyn_cast<ir::CheckOp>(inner)) {
    const Scalar &holds = scalars[check.getCondition()];
    auto constant = dyn_cast_or_null<IntegerAttr>(holds.constant);
    if (holds.isTainted)
      return "an index is checked against the padded size";
    return constant && constant.getValue().isZero()
               ? "an index is out of range in the padding"
               : "";
  }
  if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
    scalars[index].loop = index.getDim();
    return "";
  }
  if (inner.getNumResults() != 1 || inner.getNumRegions() != 0 ||
      llvm::any_of(inner.getOperandTypes(), llvm::IsaPred<TensorType>))
    return inner.hasTrait<OpTrait::IsTerminator>()
               ? ""
               : "of what it computes of the padded dimension";
  Scalar made;
  if (auto known = compare(inner, scalars)) {
    made.constant = Builder(inner.getContext()).getBoolAttr(*known);
    scalars[inner.getResult(0)] = made;
    return "";
  }
  SmallVector<Attribute> constants;
  for (Value operand : inner.getOperands()) {
    constants.push_back(scalars[operand].constant);
    made.isTainted |= scalars[operand].isTainted;
  }
  auto passes = [&](unsigned operand) {
    made = scalars[inner.getOperand(operand)];
  };
  SmallVector<OpFoldResult> folded;
  auto choice = dyn_cast_or_null<IntegerAttr>(
      constants.empty() ? Attribute() : constants.front());
  auto isZero = [](Attribute value) {
    auto real = dyn_cast_or_null<FloatAttr>(value);
    return real && real.getValue().isZero();
  };
  if (isa<arith::SelectOp>(inner) && choice)
    passes(choice.getValue().isZero() ? 2 : 1);
  else if (isa<arith::MulFOp>(inner) && llvm::any_of(constants, isZero))
    // Values computed from zeros are finite, so zero times them is zero.
    made = {*llvm::find_if(constants, isZero), std::nullopt, false};
  else if (isa<arith::IndexCastOp, arith::ExtSIOp, arith::TruncIOp>(inner) &&
           scalars[inner.getOperand(0)].loop)
    passes(0);
  else if (isa<arith::AddIOp>(inner) && matchPattern(constants[1], m_Zero()))
    passes(0);
  else if (succeeded(inner.fold(constants, folded)) && !folded.empty()) {
    if (auto value = dyn_cast<Value>(folded.front()))
      made = scalars.contains(value) ? scalars[value] : outside(value);
    else
      made = {cast<Attribute>(folded.front()), std::nullopt, false};
  }
  scalars[inner.getResult(0)] = made;
  return "";
}

std::string PaddedBody::evaluate(std::optional<unsigned> padded,
                                 Scalars &scalars) {
  for (BlockArgument value : op.getBody()->getArguments())
    scalars[value] = argument(value.getArgNumber(), padded);
  for (Operation &inner : *op.getBody())
    if (std::string why = apply(inner, padded, scalars); !why.empty())
      return why;
  return "";
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// Whether the padding does not change a reduction.
bool PaddedBody::isNeutral(unsigned result, Scalars &scalars) {
  Value yielded = op.getBody()->getTerminator()->getOperand(result);
  Operation *combine = yielded.getDefiningOp();
  Value carried = op.getRegionOutputArgs()[result];
  if (!combine || combine->getNumOperands() != 2 ||
      !llvm::is_contained(combine->getOperands(), carried))
    return false;
  Value other = combine->getOperand(combine->getOperand(0) == carried);
  auto real = dyn_cast_or_null<FloatAttr>(scalars[other].constant);
  auto whole = dyn_cast_or_null<IntegerAttr>(scalars[other].constant);
  if (isa<arith::AddFOp>(combine))
    return real && real.getValue().isZero();
  if (isa<arith::MulFOp>(combine))
    return real && real.getValue().isExactlyValue(1.0);
  if (isa<arith::MaximumFOp, arith::MaxNumFOp>(combine))
    return real && real.getValue().isInfinity() && real.getValue().isNegative();
  if (isa<arith::AddIOp, arith::OrIOp>(combine))
    return whole && whole.getValue().isZero();
  if (isa<arith::AndIOp>(combine))
    return whole && whole.getValue().isAllOnes();
  return false;
}

std::string PaddedBody::check() {
  if (std::string why = labelLoops(); !why.empty())
    return why;
  if (std::string why = evaluate(std::nullopt, inside); !why.empty())
    return why;
  ValueRange yielded = op.getBody()->getTerminator()->getOperands();
  for (Value value : yielded) {
    if (!inside.contains(value))
      inside[value] = outside(value);
    if (inside[value].isTainted)
      return "it computes with the padded size";
  }
  for (unsigned loop = 0; loop < loops.size(); ++loop) {
    if (!isPadded(loops[loop]))
      continue;
    Scalars &scalars = inPadding[loop];
    if (std::string why = evaluate(loop, scalars); !why.empty())
      return why;
    if (op.getIteratorTypesArray()[loop] != utils::IteratorType::reduction)
      continue;
    for (unsigned result = 0; result < yielded.size(); ++result)
      if (!isNeutral(result, scalars))
        return "it reduces over the padded dimension";
  }
  return "";
}

TensorFacts PaddedBody::factsOf(unsigned result) {
  Value yielded = op.getBody()->getTerminator()->getOperand(result);
  AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(result));
  bool reduces = op.getNumReductionLoops() > 0;
  TensorFacts made;
  for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
    unsigned loop = cast<AffineDimExpr>(expr).getPosition();
    made.labels.push_back(loops[loop]);
    made.padding.push_back(reduces || !inPadding.count(loop)
                               ? Attribute()
                               : inPadding[loop][yielded].constant);
    if (!reduces && inside[yielded].loop == loop)
      made.position = dim;
  }
  return made;
}

} // namespace anabranch
