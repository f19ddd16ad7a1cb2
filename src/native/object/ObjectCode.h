//===- ObjectCode.h - LLVM IR to object files -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_OBJECT_OBJECTCODE_H
#define ANABRANCH_NATIVE_OBJECT_OBJECTCODE_H

#include "native/target/Target.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

namespace llvm {
class Module;
} // namespace llvm

namespace anabranch {
namespace native {

/// Runs `body`. A fatal error of LLVM, which would end the process, becomes an
/// error instead. LLVM's objects that `body` held at that time must then be
/// leaked.
llvm::Error guardLLVM(llvm::function_ref<llvm::Error()> body);

/// A short function pipeline. Kernels are already vectorised and unrolled, so
/// it only cleans up.
void optimizeModule(llvm::Module &module, llvm::TargetMachine &machine);

/// Appends the object file of `module`, or its assembly, for people to read.
llvm::Error emitObject(llvm::Module &module, llvm::TargetMachine &machine,
                       llvm::SmallVectorImpl<char> &bytes,
                       bool assembly = false);

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_OBJECT_OBJECTCODE_H
