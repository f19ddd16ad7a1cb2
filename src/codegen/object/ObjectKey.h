//===- ObjectKey.h - what a kernel's machine code depends on ----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_OBJECT_OBJECTKEY_H
#define ANABRANCH_CODEGEN_OBJECT_OBJECTKEY_H

#include "codegen/object/KernelObject.h"
#include "codegen/target/Target.h"
#include "mlir/IR/BuiltinOps.h"

namespace anabranch {
namespace codegen {

/// The hash of all that the machine code of this module's one kernel depends
/// on, its name and locations excepted. The kernel's functions get names made
/// of it, so that equal kernels of different graphs are equal bytes; `object`
/// notes them. Empty, and nothing renamed, where the text does not say
/// everything.
std::string nameByContents(mlir::ModuleOp module, llvm::StringRef identity,
                           const TargetInfo &target, KernelObject &object);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_OBJECT_OBJECTKEY_H
