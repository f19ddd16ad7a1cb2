//===- WritingCall.cpp - operators that write their arguments -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "ir/WritingCall.h"

#include "ir/Scope.h"

using namespace mlir;

namespace anabranch {
namespace ir {

static constexpr NumberList operands{"anabranch.written"};

ArrayRef<int64_t> writtenOperands(AtenOp call) { return operands.of(call); }

void setWrittenOperands(Operation *call, ArrayRef<int64_t> numbers) {
  operands.set(call, numbers);
}

ResultRange returnedValues(AtenOp call) {
  return call.getResults().drop_back(writtenOperands(call).size());
}

ResultRange newValues(AtenOp call) {
  return call.getResults().take_back(writtenOperands(call).size());
}

int64_t memoryNumber(Value value) {
  auto result = dyn_cast<OpResult>(value);
  auto call = result ? dyn_cast<AtenOp>(result.getOwner()) : AtenOp();
  if (!call)
    return -1;
  int64_t returned = returnedValues(call).size();
  return std::max<int64_t>(-1, result.getResultNumber() - returned);
}

Value oldValue(Value value) {
  int64_t memory = memoryNumber(value);
  if (memory < 0)
    return Value();
  auto call = value.getDefiningOp<AtenOp>();
  int64_t operand = writtenOperands(call)[memory];
  return operand < 0 ? Value() : call.getInputs()[operand];
}

int64_t writtenNumber(DictionaryAttr argument) {
  return argument.getAs<IntegerAttr>(writtenEntry).getInt();
}

} // namespace ir
} // namespace anabranch
