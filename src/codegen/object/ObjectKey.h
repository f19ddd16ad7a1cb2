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

/// The hash of everything that the machine code of this module's kernel depends
/// on, except its name and locations. The kernel's functions get names made of
/// the hash, so that equal kernels of different graphs have equal bytes;
/// `object` records these names. If the module's text does not show everything,
/// the hash is empty and nothing is renamed.
std::string nameByContents(mlir::ModuleOp module, llvm::StringRef identity,
                           const TargetInfo &target, KernelObject &object);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_OBJECT_OBJECTKEY_H
