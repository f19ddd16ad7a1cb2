//===- Anabranch.cpp - the anabranch dialect ------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "ir/Anabranch.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace anabranch::ir;

#include "ir/AnabranchDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "ir/AnabranchAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "ir/AnabranchTypes.cpp.inc"

#define GET_OP_CLASSES
#include "ir/AnabranchOps.cpp.inc"

void AnabranchDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/AnabranchAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/AnabranchTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/AnabranchOps.cpp.inc"
      >();
}

void anabranch::ir::registerAllDialects(DialectRegistry &registry) {
  registry
      .insert<AnabranchDialect, affine::AffineDialect, arith::ArithDialect,
              cf::ControlFlowDialect, func::FuncDialect, linalg::LinalgDialect,
              LLVM::LLVMDialect, math::MathDialect, memref::MemRefDialect,
              scf::SCFDialect, tensor::TensorDialect, vector::VectorDialect>();
}
