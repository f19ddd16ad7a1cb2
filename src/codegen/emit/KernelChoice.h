//===- KernelChoice.h - one way to make a kernel ----------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_EMIT_KERNELCHOICE_H
#define ANABRANCH_CODEGEN_EMIT_KERNELCHOICE_H

#include "codegen/emit/KernelShell.h"

#include <optional>
#include <string>

namespace anabranch {
namespace codegen {

/// One way to make a kernel. A wing of its own has a file with these two
/// functions; KernelChoices.cpp lists all choices; AttentionKernel.cpp is an
/// example. Choices may round differently, but a kernel gives the same bits in
/// every call and with every number of workers.
struct KernelChoice {
  llvm::StringLiteral name;
  /// Why this choice cannot make the kernel; nothing if it can.
  std::optional<std::string> (*refusal)(mlir::func::FuncOp kernel,
                                        const TargetInfo &target);
  /// Writes the bodies of the functions.
  mlir::LogicalResult (*emit)(KernelShell &shell);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_EMIT_KERNELCHOICE_H
