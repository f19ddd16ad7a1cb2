//===- Overwrites.cpp - which new values lie over old ones ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/program/Overwrites.h"

#include "ir/Explain.h"
#include "schedule/fusion/Layouts.h"
#include "schedule/fusion/OpKinds.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

Overwrites::Overwrites(func::FuncOp main) : main(main) {
  for (unsigned i = 0; i < main.getNumResults(); ++i)
    if (auto argument =
            main.getResultAttrOfType<IntegerAttr>(i, "anabranch.writes");
        argument && !main.getArgAttr(argument.getInt(), "anabranch.copy_in"))
      mutated.insert(argument.getInt());
  for (auto call : main.getBody().front().getOps<ir::AtenOp>())
    for (OpResult value : ir::newValues(call))
      decide(call, value);
}

Value Overwrites::firstIn(Value value) const {
  value = lookThroughReshapes(value);
  while (isInPlace(value))
    value = lookThroughReshapes(ir::oldValue(value));
  return value;
}

bool Overwrites::isLastUse(Value value, Operation *writer) const {
  SmallVector<Value> work{lookThroughReshapes(value)};
  while (!work.empty()) {
    Value read = work.pop_back_val(), bytes = lookThroughReshapes(read);
    for (Operation *user : read.getUsers()) {
      if (isReshape(user))
        work.push_back(user->getResult(0));
      else if (user->hasTrait<OpTrait::IsTerminator>()
                   ? !isa<BlockArgument>(bytes)
                   : writer->isBeforeInBlock(user))
        return false;
      if (auto call = dyn_cast<ir::AtenOp>(user); call && user != writer)
        for (OpResult over : ir::newValues(call))
          if (isInPlace(over) &&
              lookThroughReshapes(ir::oldValue(over)) == bytes)
            work.push_back(over);
    }
  }
  return true;
}

StringRef Overwrites::refuseMemory(Value old) const {
  Value first = firstIn(old);
  if (auto argument = dyn_cast<BlockArgument>(first))
    return mutated.contains(argument.getArgNumber())
               ? ""
               : "the caller's tensor keeps its value";
  if (ir::memoryNumber(first) >= 0)
    return "";
  auto maker = first.getDefiningOp<ir::DispatchOp>();
  if (!maker)
    return "PyTorch's operator made the old value in memory of its own";
  return maker->hasAttr("initialize") ? "the old value is the same in all calls"
                                      : "";
}

/// How many arguments and memories of the call are these bytes.
static int64_t countUses(ir::AtenOp call, Value bytes) {
  int64_t uses = 0;
  auto refersTo = [&](int64_t operand) {
    return operand >= 0 &&
           lookThroughReshapes(call.getInputs()[operand]) == bytes;
  };
  call.getArgs().walk(
      [&](ir::OperandRefAttr ref) { uses += refersTo(ref.getIndex()); });
  return uses + llvm::count_if(ir::writtenOperands(call), refersTo);
}

/// The strides in which a value lies in its memory; null: row by row.
DenseI64ArrayAttr Overwrites::stridesOf(Value value) const {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return stridesOfArgument(main, argument.getArgNumber());
  return ir::stridesOfMemory(value);
}

StringRef Overwrites::refuse(ir::AtenOp call, OpResult newValue) const {
  Value bytes = lookThroughReshapes(ir::oldValue(newValue));
  if (StringRef reason = refuseMemory(bytes); !reason.empty())
    return reason;
  if (stridesOf(bytes) != ir::stridesOfMemory(newValue))
    return "the operator sees the value with other strides";
  if (countUses(call, bytes) != 1)
    return "the operator takes the old value twice";
  return isLastUse(bytes, call) ? "" : "the old value is read later";
}

void Overwrites::decide(ir::AtenOp call, OpResult newValue) {
  if (!ir::oldValue(newValue))
    return;
  StringRef reason = refuse(call, newValue);
  if (reason.empty())
    inPlace.insert(newValue);
  else
    ir::explainRefusal(call.getLoc(), "written in place", reason);
}

} // namespace schedule
} // namespace anabranch
