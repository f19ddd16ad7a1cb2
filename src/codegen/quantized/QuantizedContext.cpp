//===- QuantizedContext.cpp - sizes of a quantised product ----------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/quantized/QuantizedContext.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

Value bytesBehind(LaneBuilder &lanes, Value pointer, Value bytes) {
  OpBuilder &b = lanes.builder;
  return b.create<LLVM::GEPOp>(
      lanes.loc, LLVM::LLVMPointerType::get(b.getContext()), b.getI8Type(),
      pointer, ArrayRef<LLVM::GEPArg>{lanes.toI64(bytes)});
}

} // namespace codegen
} // namespace anabranch
