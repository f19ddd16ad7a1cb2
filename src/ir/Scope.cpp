//===- Scope.cpp - operators keep their stream ----------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "ir/Scope.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace ir {

static constexpr StringLiteral scopeName = "anabranch.scope";
static constexpr StringLiteral orderNames[] = {scopeName, pointsMade.name,
                                               pointsAwaited.name};

ScopeAttr scopeOf(Operation *op) {
  return op->getAttrOfType<ScopeAttr>(scopeName);
}

StringRef streamOf(Operation *op) {
  ScopeAttr scope = scopeOf(op);
  return scope ? scope.getTag() : StringRef();
}

SmallVector<StreamOp> streamsOfCalls(ModuleOp module) {
  SmallVector<StreamOp> streams;
  for (auto program : module.getOps<ProgramOp>())
    for (auto stream : program.getBody().getOps<StreamOp>())
      if (!stream.getInitialize())
        streams.push_back(stream);
  return streams;
}

/// Constants and sizes belong to no stream: all streams share them.
static bool doesWork(Operation *op) {
  if (isa<AtenOp, FenceOp, LaunchOp, CallOp, CopyOp>(op))
    return true;
  return !op->hasTrait<OpTrait::ConstantLike>() && !isa<tensor::EmptyOp>(op) &&
         llvm::any_of(op->getResultTypes(),
                      [](Type type) { return isa<RankedTensorType>(type); });
}

void setScope(Operation *op, ScopeAttr scope) {
  if (scope && doesWork(op))
    op->setAttr(scopeName, scope);
}

ArrayRef<int64_t> NumberList::of(Operation *op) const {
  auto attr = op->getAttrOfType<DenseI64ArrayAttr>(name);
  return attr ? attr.asArrayRef() : ArrayRef<int64_t>();
}

void NumberList::set(Operation *op, ArrayRef<int64_t> numbers) const {
  if (!numbers.empty())
    op->setAttr(name, DenseI64ArrayAttr::get(op->getContext(), numbers));
}

void dropFences(Operation *op) {
  op->removeAttr(fencesAfter.name);
  op->removeAttr(fencesBefore.name);
}

void copyOrder(Operation *from, Operation *to) {
  for (StringRef name : orderNames)
    if (Attribute attr = from->getAttr(name))
      to->setAttr(name, attr);
}

void dropOrder(Operation *op) {
  for (StringRef name : orderNames)
    op->removeAttr(name);
}

SuperAttr superOf(Location location) {
  SuperAttr found;
  location->walk([&](Location inner) {
    auto fused = dyn_cast<FusedLoc>(inner);
    auto super =
        fused ? dyn_cast_or_null<SuperAttr>(fused.getMetadata()) : SuperAttr();
    if (super && (!found || super.getName().empty()))
      found = super;
    return WalkResult::advance();
  });
  return found;
}

Location inSuper(Location location, SuperAttr super) {
  return FusedLoc::get(location.getContext(), location, super);
}

LogicalResult FenceOp::verify() {
  if (getPasses().getTypes() != getResultTypes())
    return emitOpError("passes on values of other types than it takes");
  return success();
}

} // namespace ir
} // namespace anabranch
