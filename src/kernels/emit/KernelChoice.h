//===- KernelChoice.h - one way to make a kernel ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_EMIT_KERNELCHOICE_H
#define ANABRANCH_KERNELS_EMIT_KERNELCHOICE_H

#include "kernels/emit/KernelShell.h"

#include <optional>
#include <string>

namespace anabranch {
namespace kernels {

/// One way to make a kernel. A wing of its own has a file with these two
/// functions; KernelChoices.cpp lists all choices; AttentionKernel.cpp is an
/// example. Choices may round differently, but a kernel gives the same bits in
/// every call and with every number of workers.
struct KernelChoice {
  llvm::StringLiteral name;
  /// Why this choice cannot make the kernel; nothing if it can.
  std::optional<std::string> (*refusal)(mlir::func::FuncOp kernel,
                                        const native::TargetInfo &target);
  /// Writes the bodies of the functions.
  mlir::LogicalResult (*emit)(KernelShell &shell);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_EMIT_KERNELCHOICE_H
