//===- Intrinsic.h - calls of LLVM's intrinsics for x86 ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_ISA_X86_INTRINSIC_H
#define ANABRANCH_NATIVE_ISA_X86_INTRINSIC_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

namespace anabranch {
namespace native {

/// The result of "llvm.x86.NAME"; null if `type` is.
inline mlir::Value callX86(mlir::OpBuilder &b, mlir::Location loc,
                           llvm::StringRef name, mlir::Type type,
                           mlir::ValueRange operands) {
  auto call = b.create<mlir::LLVM::CallIntrinsicOp>(
      loc, type, ("llvm.x86." + name).str(), operands);
  return type ? call.getResult(0) : mlir::Value();
}

/// Lanes of a vector, or 1.
inline int64_t lanesOf(mlir::Value value) {
  auto vector = mlir::dyn_cast<mlir::VectorType>(value.getType());
  return vector ? vector.getNumElements() : 1;
}

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_ISA_X86_INTRINSIC_H
