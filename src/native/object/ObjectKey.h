//===- ObjectKey.h - what a kernel's machine code depends on ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_OBJECT_OBJECTKEY_H
#define ANABRANCH_NATIVE_OBJECT_OBJECTKEY_H

#include "mlir/IR/BuiltinOps.h"
#include "native/object/KernelObject.h"
#include "native/target/Target.h"

namespace anabranch {
namespace native {

/// The hash of everything that the machine code of this module's kernel depends
/// on, except its name and locations. The kernel's functions get names made of
/// the hash, so that equal kernels of different graphs have equal bytes;
/// `object` records these names. If the module's text does not show everything,
/// the hash is empty and nothing is renamed.
std::string nameByContents(mlir::ModuleOp module, llvm::StringRef identity,
                           const TargetInfo &target, KernelObject &object);

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_OBJECT_OBJECTKEY_H
