//===- WritingCall.cpp - operators that write their arguments -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "ir/WritingCall.h"

#include "ir/Scope.h"

using namespace mlir;

namespace anabranch {
namespace ir {

static constexpr NumberList operandList{"anabranch.written"};
static constexpr StringLiteral stridesName = "anabranch.written_strides";

ArrayRef<int64_t> writtenOperands(AtenOp call) { return operandList.of(call); }

void setWritten(Operation *call, ArrayRef<int64_t> operands,
                ArrayRef<DenseI64ArrayAttr> strides) {
  operandList.set(call, operands);
  if (llvm::none_of(strides, [](Attribute attr) { return attr; }))
    return;
  Builder builder(call->getContext());
  SmallVector<Attribute> list;
  for (DenseI64ArrayAttr attr : strides)
    list.push_back(attr ? Attribute(attr) : builder.getUnitAttr());
  call->setAttr(stridesName, builder.getArrayAttr(list));
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

DenseI64ArrayAttr stridesOfMemory(Value newValue) {
  int64_t memory = memoryNumber(newValue);
  auto list =
      memory < 0
          ? ArrayAttr()
          : newValue.getDefiningOp()->getAttrOfType<ArrayAttr>(stridesName);
  return list ? dyn_cast<DenseI64ArrayAttr>(list[memory]) : DenseI64ArrayAttr();
}

int64_t writtenNumber(DictionaryAttr argument) {
  return argument.getAs<IntegerAttr>(writtenEntry).getInt();
}

} // namespace ir
} // namespace anabranch
