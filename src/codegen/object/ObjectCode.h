//===- ObjectCode.h - LLVM IR to object files -------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_OBJECT_OBJECTCODE_H
#define ANABRANCH_CODEGEN_OBJECT_OBJECTCODE_H

#include "codegen/target/Target.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

namespace llvm {
class Module;
} // namespace llvm

namespace anabranch {
namespace codegen {

/// Runs `body`. LLVM's fatal errors, which would end the process, come back as
/// an error instead; what `body` held of LLVM at that time must then be leaked.
llvm::Error guardLLVM(llvm::function_ref<llvm::Error()> body);

/// The short function pipeline: kernels come vectorised and unrolled, so that
/// only cleaning up is left.
void optimizeModule(llvm::Module &module, llvm::TargetMachine &machine);

/// Appends the object file (or, for people, the assembly) of `module`.
llvm::Error emitObject(llvm::Module &module, llvm::TargetMachine &machine,
                       llvm::SmallVectorImpl<char> &bytes,
                       bool assembly = false);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_OBJECT_OBJECTCODE_H
