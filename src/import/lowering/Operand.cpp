//===- Operand.cpp - what a lowering reads --------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/Operand.h"

#include "ir/SteadyInput.h"

using namespace mlir;

namespace anabranch {
namespace importer {

bool Operand::isTensor() const {
  return value && isa<RankedTensorType>(value.getType());
}
RankedTensorType Operand::type() const {
  return cast<RankedTensorType>(value.getType());
}
int64_t Operand::rank() const { return type().getRank(); }

bool Operand::isSteady() const { return ir::isSteady(value); }

Num scalarElement(Body &body, const Operand &operand, DType dtype) {
  if (operand.value && operand.dtype.isFloat())
    return s::cast(s::fromBits(body, operand.value), dtype);
  if (operand.value)
    return s::fromIndex(body, operand.value, dtype);
  if (auto real = dyn_cast<FloatAttr>(operand.literal)) {
    double number = real.getValueAsDouble();
    if (dtype.isBool())
      number = number != 0;
    return s::constant(body, dtype, number);
  }
  auto integer = cast<IntegerAttr>(operand.literal);
  int64_t number = integer.getType().isInteger(1)
                       ? int64_t(integer.getValue().getBoolValue())
                       : integer.getInt();
  return s::constant(body, dtype, number);
}

SmallVector<Num> elementsOf(Body &body, ArrayRef<Operand> operands,
                            ValueRange blockArguments,
                            llvm::function_ref<DType(DType)> elementDType) {
  SmallVector<Num> elements;
  unsigned next = 0;
  for (const Operand &operand : operands) {
    DType dtype = elementDType(operand.dtype);
    if (operand.isTensor())
      elements.push_back(
          s::cast({&body, blockArguments[next++], operand.dtype}, dtype));
    else
      elements.push_back(scalarElement(body, operand, dtype));
  }
  return elements;
}

} // namespace importer
} // namespace anabranch
