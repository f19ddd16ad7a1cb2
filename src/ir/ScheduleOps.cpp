//===- ScheduleOps.cpp - dispatches, kernels, the program -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "ir/Anabranch.h"
#include "ir/ResultDims.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace anabranch::ir;

LogicalResult DispatchOp::verify() {
  Block &block = getBody().front();
  if (block.getNumArguments() != getInputs().size() + getIndices().size())
    return emitOpError("region must take every input and index");
  if (block.getTerminator()->getOperandTypes() != getResultTypes())
    return emitOpError("region must yield the results' types");
  return verifyResultDims(*this);
}

LogicalResult ProgramOp::verify() {
  int64_t slots = getSlots();
  auto inRange = [&](Attribute attr) {
    auto slot = dyn_cast_or_null<SlotAttr>(attr);
    return !slot || (slot.getIndex() >= 0 && slot.getIndex() < slots);
  };
  WalkResult result = getBody().walk([&](Operation *op) {
    for (NamedAttribute attr : op->getAttrs()) {
      bool valid = inRange(attr.getValue());
      if (auto list = dyn_cast<ArrayAttr>(attr.getValue()))
        valid = llvm::all_of(list, inRange);
      if (!valid) {
        op->emitOpError("names a slot outside the program's ") << slots;
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult BufferOp::verify() {
  static constexpr StringLiteral kinds[] = {
      "input", "output", "arena", "persistent", "constant", "external"};
  if (!llvm::is_contained(kinds, getKind()))
    return emitOpError("has the unknown kind '") << getKind() << "'";
  if ((getKind() == "input" || getKind() == "output") != !!getIndex())
    return emitOpError("must have an index if it is an input or an output, and "
                       "none otherwise");
  if (getStrides() && getStrides()->size() != getShape().size())
    return emitOpError("must have as many strides as dimensions");
  return success();
}

LogicalResult SuperOp::verify() {
  if (getName().empty() || getStreams() < 1)
    return emitOpError("must have a name and a stream");
  for (Operation &member : getBody().front())
    if (!isa<LaunchOp>(member))
      return member.emitOpError("is no member of a super kernel");
  auto members = static_cast<int64_t>(llvm::range_size(getBody().front()));
  if (getOrders())
    for (auto order : getOrdersAttr().getAsRange<OrderAttr>())
      if (order.getBefore().empty() || order.getAfter().empty() ||
          llvm::any_of(order.getAfter(),
                       [&](int64_t after) {
                         return after >= members ||
                                *llvm::max_element(order.getBefore()) >= after;
                       }) ||
          *llvm::min_element(order.getBefore()) < 0)
        return emitOpError(
            "orders members that do not exist, or that run in another order");
  return success();
}

void StreamOp::forEachCommand(llvm::function_ref<void(Operation *)> visit) {
  for (Operation &command : getBody().front())
    if (auto super = dyn_cast<SuperOp>(command))
      for (Operation &member : super.getBody().front())
        visit(&member);
    else
      visit(&command);
}

LogicalResult OutputOp::verify() {
  StringRef kind = getKind();
  bool isBuffer = kind == "tensor" || kind == "external";
  if (!isBuffer && kind != "alias" && kind != "scalar" && kind != "none")
    return emitOpError("has the unknown kind '") << kind << "'";
  if (isBuffer != !!getBuffer() || (kind == "alias") != !!getInput() ||
      (kind == "scalar") != !!getScalar())
    return emitOpError("does not fit its kind '") << kind << "'";
  return success();
}
