//===- KeepDistinct.cpp - results with their own buffers ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/passes/KeepDistinct.h"

#include "import/lowering/Lowering.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"

using namespace mlir;

namespace anabranch {
namespace importer {

/// A call that copies the tensor.
static ir::AtenOp cloneOf(OpBuilder &builder, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<Value> dims;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (type.isDynamicDim(dim))
      dims.push_back(getValueOrCreateConstantIndexOp(
          builder, value.getLoc(),
          sizeOf(builder, value.getLoc(), value, dim)));
  auto args = builder.getDictionaryAttr(
      {builder.getNamedAttr("self",
                            ir::OperandRefAttr::get(builder.getContext(), 0)),
       builder.getNamedAttr("memory_format", builder.getUnitAttr())});
  return builder.create<ir::AtenOp>(
      value.getLoc(), TypeRange(type), builder.getStringAttr("clone"),
      ValueRange(value), dims, args, builder.getDenseI64ArrayAttr({}),
      builder.getDenseI64ArrayAttr({}), UnitAttr());
}

SmallVector<ir::AtenOp> keepDistinct(Operation *end, ArrayRef<Value> before) {
  SmallVector<ir::AtenOp> copies;
  OpBuilder builder(end);
  for (OpOperand &operand : end->getOpOperands()) {
    unsigned i = operand.getOperandNumber();
    if (!isa<RankedTensorType>(operand.get().getType()))
      continue;
    bool merged =
        isa<BlockArgument>(operand.get()) && operand.get() != before[i];
    for (unsigned j = 0; j < i && !merged; ++j)
      merged = end->getOperand(j) == operand.get() && before[j] != before[i];
    if (!merged)
      continue;
    copies.push_back(cloneOf(builder, operand.get()));
    operand.set(copies.back().getResult(0));
  }
  return copies;
}

} // namespace importer
} // namespace anabranch
