//===- ComplexViews.cpp - complex numbers as pairs of real ones -----------===//
// SPDX-License-Identifier: Apache-2.0
//
// Kernels compute the parts of complex numbers, which capture makes of complex
// operators. These two views stand where complex tensors enter and leave.

#include "import/lowering/OpTable.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace anabranch {
namespace importer {

/// Whether the tensor is an argument that the caller need not give as
/// contiguous memory.
static bool isStridedArgument(Value tensor) {
  auto argument = dyn_cast<BlockArgument>(tensor);
  if (!argument)
    return false;
  auto main = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  unsigned number = argument.getArgNumber();
  return main.getArgAttr(number, "anabranch.strides") &&
         !main.getArgAttr(number, "anabranch.constant") &&
         !main.getArgAttr(number, "anabranch.copy_in");
}

static Lowered lowerReinterpreted(ir::AtenOp op, LoweringBuilder &b) {
  Value source = op.getOperandArg("self");
  RankedTensorType type = b.resultType();
  if (isStridedArgument(source))
    return b.refuse("an input that is not contiguous");
  auto before = source.getDefiningOp<ir::ReinterpretOp>();
  if (before && before.getSource().getType() == type)
    return lowered(before.getSource());
  return lowered(b.create<ir::ReinterpretOp>(type, source));
}

void registerComplexViews(OpTable &table) {
  table.family("view");
  DTypeSet dtypes = F32 | F64 | C64 | C128;
  table.add("view_as_real", lowerReinterpreted, "", dtypes);
  table.add("view_as_complex", lowerReinterpreted, "", dtypes);
}

} // namespace importer
} // namespace anabranch
