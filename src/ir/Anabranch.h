//===- Anabranch.h - the anabranch dialect ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IR_ANABRANCH_H
#define ANABRANCH_IR_ANABRANCH_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "ir/AnabranchDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "ir/AnabranchAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "ir/AnabranchTypes.h.inc"

#define GET_OP_CLASSES
#include "ir/AnabranchOps.h.inc"

namespace anabranch {
namespace ir {

/// Registers this dialect and every MLIR dialect that the compiler uses. One
/// list for the pipeline, the tools and the tests.
void registerAllDialects(mlir::DialectRegistry &registry);

} // namespace ir
} // namespace anabranch

#endif // ANABRANCH_IR_ANABRANCH_H
