//===- ProvePadding.cpp - does padding change the result? -----------------===//
// SPDX-License-Identifier: Apache-2.0
//
// The proof follows every value from the inputs on. It knows the labels of its
// dimensions, for each padded dimension the constant in its padding, if there
// is one (zeros become masks become minus infinity), and whether an element is
// its own position. An operator passes if the kept part of its result needs
// only the kept parts of its operands, or if the padding that it reads is
// neutral.

#include "import/padding/ProvePadding.h"

#include "import/padding/PaddedBody.h"
#include "ir/Anabranch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace anabranch {
namespace {

class Prover {
public:
  explicit Prover(func::FuncOp main) : main(main), sizes(main) {}

  FailureOr<SmallVector<PaddedDim>> run();

private:
  LogicalResult visit(Operation &op);
  LogicalResult visit(linalg::GenericOp op);
  LogicalResult visit(linalg::FillOp op);
  LogicalResult visit(tensor::EmptyOp op);
  LogicalResult visit(tensor::ExtractSliceOp op);
  LogicalResult visit(tensor::InsertSliceOp op);
  LogicalResult visit(ir::AttentionOp op);
  LogicalResult reshape(Operation *op, Value source,
                        ArrayRef<SizeLabel> labels);
  LogicalResult visitOther(Operation &op);
  LogicalResult finish(func::ReturnOp op);

  static LogicalResult refuse(Operation *op, const Twine &why) {
    return emitError(op->getLoc())
           << "gears_pad: padding would change the result: " << why;
  }
  TensorFacts plain(Value value) const;
  const TensorFacts &of(Value value) { return facts.at(value); }

  func::FuncOp main;
  PaddedSizes sizes;
  FactTable facts;
  SmallVector<PaddedDim> found;
};

/// The facts of a value without padded dimensions.
TensorFacts Prover::plain(Value value) const {
  TensorFacts made;
  for (int64_t size : cast<RankedTensorType>(value.getType()).getShape())
    made.labels.push_back(size == 1 ? SizeLabel() : SizeLabel{size});
  made.padding.resize(made.labels.size());
  return made;
}

LogicalResult Prover::visit(linalg::GenericOp op) {
  PaddedBody body(op, sizes, facts);
  if (std::string why = body.check(); !why.empty())
    return refuse(op, why);
  for (OpResult result : op->getResults())
    facts[result] = body.factsOf(result.getResultNumber());
  return success();
}

LogicalResult Prover::visit(linalg::FillOp op) {
  TensorFacts made = of(op.getOutputs().front());
  Attribute value;
  if (matchPattern(op.getInputs().front(), m_Constant(&value)))
    made.padding.assign(made.labels.size(), value);
  facts[op->getResult(0)] = made;
  return success();
}

LogicalResult Prover::visit(tensor::EmptyOp op) {
  TensorFacts made;
  for (OpFoldResult size : op.getMixedSizes()) {
    auto label = sizes.of(size);
    if (!label)
      return refuse(op, "a size is computed of another one");
    made.labels.push_back(*label);
  }
  made.padding.resize(made.labels.size());
  facts[op] = made;
  return success();
}

/// A slice may keep a dimension whole, or cut where every size has elements.
LogicalResult Prover::visit(tensor::ExtractSliceOp op) {
  const TensorFacts &source = of(op.getSource());
  TensorFacts made;
  llvm::SmallBitVector dropped = op.getDroppedDims();
  for (unsigned d = 0; d < source.labels.size(); ++d) {
    auto label = sizes.of(op.getMixedSizes()[d]);
    auto offset = getConstantIntValue(op.getMixedOffsets()[d]);
    auto stride = getConstantIntValue(op.getMixedStrides()[d]);
    auto size = getConstantIntValue(op.getMixedSizes()[d]);
    if (!label || !stride ||
        ((isPadded(*label) || isPadded(source.labels[d])) &&
         (!offset || *stride != 1)))
      return refuse(op, "a slice begins or ends at a place that is computed");
    if (!offset && sizes.dependsOnSymbol(cast<Value>(op.getMixedOffsets()[d])))
      return refuse(op, "a slice begins at a size");
    bool whole = *label == source.labels[d] && offset && *offset == 0;
    if (isPadded(source.labels[d]) && !whole &&
        (!size || *offset + *size > sizes.least(source.labels[d])))
      return refuse(op, "a slice may reach into the padding");
    if (isPadded(*label) && !isPadded(source.labels[d]) && *offset != 0)
      return refuse(op, "a slice of a computed size does not begin at zero");
    if (dropped.test(d))
      continue;
    made.labels.push_back(*label);
    made.padding.push_back(whole ? source.padding[d] : Attribute());
  }
  facts[op] = made;
  return success();
}

LogicalResult Prover::visit(tensor::InsertSliceOp op) {
  TensorFacts made = of(op.getDest());
  for (unsigned d = 0; d < made.labels.size(); ++d) {
    auto label = sizes.of(op.getMixedSizes()[d]);
    auto offset = getConstantIntValue(op.getMixedOffsets()[d]);
    bool whole = label && *label == made.labels[d] && offset && *offset == 0;
    if (!whole &&
        (!label || !offset || isPadded(*label) || isPadded(made.labels[d])))
      return refuse(op, "parts are joined along the padded dimension");
    made.padding[d] = {};
  }
  made.position.reset();
  facts[op] = made;
  return success();
}

/// Rows, heads and batches do not mix. Padded keys must be masked out.
LogicalResult Prover::visit(ir::AttentionOp op) {
  const TensorFacts &query = of(op.getQuery()), &key = of(op.getKey());
  unsigned rank = query.labels.size();
  const SizeLabel &columns = key.labels[key.labels.size() - 2];
  if (isPadded(query.labels[rank - 1]))
    return refuse(op, "attention multiplies along the padded dimension");
  if (isPadded(columns)) {
    bool hidden = op.getCausal() && query.labels[rank - 2] == columns;
    if (Value mask = op.getMask()) {
      const TensorFacts &m = of(mask);
      Attribute value = m.padding.empty() ? Attribute() : m.padding.back();
      auto real = dyn_cast_or_null<FloatAttr>(value);
      auto flag = dyn_cast_or_null<IntegerAttr>(value);
      hidden |= (real && real.getValue().isInfinity() &&
                 real.getValue().isNegative()) ||
                (flag && flag.getValue().isZero() &&
                 getElementTypeOrSelf(mask.getType()).isInteger(1));
    }
    if (!hidden)
      return refuse(op, "attention sees the padding, since no mask that is "
                        "zero in padded inputs hides it");
  }
  TensorFacts made;
  made.labels = query.labels;
  made.labels.back() = of(op.getValue()).labels.back();
  made.padding.resize(rank);
  facts[op->getResult(0)] = made;
  return success();
}

/// Both sides must have the same factors, group by group.
LogicalResult Prover::reshape(Operation *op, Value source,
                              ArrayRef<SizeLabel> labels) {
  const TensorFacts &from = of(source);
  TensorFacts made;
  SizeLabel left, right;
  for (const SizeLabel &label : from.labels)
    left.append(label);
  for (const SizeLabel &label : labels)
    right.append(label);
  if (isPadded(left) && normalized(left) != normalized(right))
    return refuse(op, "a reshape splits the padded dimension");
  for (const SizeLabel &label : labels)
    made.labels.push_back(normalized(label));
  made.padding.resize(labels.size());
  // A dimension that does not change keeps its padding.
  for (unsigned d = 0; d < labels.size(); ++d)
    for (unsigned s = 0; s < from.labels.size(); ++s)
      if (isPadded(labels[d]) && labels[d] == from.labels[s] &&
          llvm::count(labels, labels[d]) == 1 &&
          llvm::count(from.labels, labels[d]) == 1) {
        made.padding[d] = from.padding[s];
        if (from.position == s)
          made.position = d;
      }
  facts[op->getResult(0)] = made;
  return success();
}

LogicalResult Prover::visitOther(Operation &op) {
  auto isClean = [&](Value value) {
    if (isa<RankedTensorType>(value.getType()))
      return llvm::none_of(of(value).labels, isPadded);
    return !value.getType().isIntOrIndexOrFloat() ||
           !sizes.dependsOnSymbol(value);
  };
  bool clean = true;
  op.walk([&](Operation *inner) {
    for (Value operand : inner->getOperands()) {
      Operation *at = operand.getParentRegion()->getParentOp();
      if (!op.isAncestor(at))
        clean &= isClean(operand);
    }
  });
  if (!clean)
    return refuse(&op, "it does more with the padded dimension than is known");
  for (Value result : op.getResults()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (type && !type.hasStaticShape())
      return refuse(&op, "it makes a tensor of a size that is computed");
    if (type)
      facts[result] = plain(result);
  }
  return success();
}

LogicalResult Prover::visit(Operation &op) {
  // Sizes are checked where they are used.
  bool isSize = op.getNumResults() > 0 &&
                llvm::all_of(op.getResultTypes(),
                             [](Type type) { return type.isIndex(); });
  if (isSize || isa<ir::ExpectOp>(op))
    return success();
  using Visited = std::optional<LogicalResult>;
  Visited visited =
      llvm::TypeSwitch<Operation *, Visited>(&op)
          .Case<linalg::GenericOp, linalg::FillOp, tensor::EmptyOp,
                tensor::ExtractSliceOp, tensor::InsertSliceOp, ir::AttentionOp>(
              [&](auto known) { return visit(known); })
          .Default([](Operation *) { return std::nullopt; });
  if (visited)
    return *visited;
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    SmallVector<SizeLabel> labels;
    for (const ReassociationIndices &group :
         collapse.getReassociationIndices()) {
      labels.emplace_back();
      for (int64_t dim : group)
        labels.back().append(of(collapse.getSrc()).labels[dim]);
    }
    return reshape(&op, collapse.getSrc(), labels);
  }
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    SmallVector<SizeLabel> labels;
    Builder builder(op.getContext());
    for (OpFoldResult size : getMixedValues(expand.getStaticOutputShape(),
                                            expand.getOutputShape(), builder)) {
      auto label = sizes.of(size);
      if (!label)
        return refuse(&op, "a reshape computes a size");
      labels.push_back(*label);
    }
    return reshape(&op, expand.getSrc(), labels);
  }
  return visitOther(op);
}

LogicalResult Prover::finish(func::ReturnOp op) {
  int64_t output = 0;
  for (auto [number, value] : llvm::enumerate(op.getOperands())) {
    auto writes =
        main.getResultAttrOfType<IntegerAttr>(number, "anabranch.writes");
    int64_t place = writes ? -1 : output++;
    if (isa<BlockArgument>(value) && !writes &&
        isa<RankedTensorType>(value.getType()))
      continue; // returned as it is
    if (value.getType().isIndex()) {
      if (!main.getResultAttr(number, "anabranch.none") &&
          sizes.dependsOnSymbol(value))
        return refuse(op, "a size is a result");
      continue;
    }
    for (auto [dim, label] : llvm::enumerate(of(value).labels)) {
      if (!isPadded(label))
        continue;
      if (writes || label.size() != 1)
        return refuse(op, writes ? "an input is written to"
                                 : "a result has a size that is computed");
      int64_t input = 0;
      for (BlockArgument argument : main.getArguments()) {
        if (main.getArgAttr(argument.getArgNumber(), "anabranch.constant"))
          continue;
        auto type = dyn_cast<RankedTensorType>(argument.getType());
        for (int64_t d = 0; type && d < type.getRank() && place >= 0; ++d)
          if (sizes.ofArgument(argument, d) == label) {
            found.push_back({place, static_cast<int64_t>(dim), input, d});
            place = -1 - place;
          }
        ++input;
      }
      if (place >= 0)
        return refuse(op, "no input is as long as a result");
      place = -1 - place;
    }
  }
  return success();
}

FailureOr<SmallVector<PaddedDim>> Prover::run() {
  for (BlockArgument argument : main.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type)
      continue;
    TensorFacts made;
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      made.labels.push_back(sizes.ofArgument(argument, dim));
    Attribute zero;
    if (type.getElementType().isIntOrFloat())
      zero = Builder(main.getContext()).getZeroAttr(type.getElementType());
    made.padding.resize(type.getRank(), zero);
    facts[argument] = made;
  }
  for (Operation &op : main.getBody().front().without_terminator())
    if (failed(visit(op)))
      return failure();
  auto end = cast<func::ReturnOp>(main.getBody().front().getTerminator());
  if (failed(finish(end)))
    return failure();
  return found;
}

} // namespace

FailureOr<SmallVector<PaddedDim>> provePadding(func::FuncOp main) {
  return Prover(main).run();
}

} // namespace anabranch
