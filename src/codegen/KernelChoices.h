//===- KernelChoices.h - the ways to make a kernel --------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_KERNELCHOICES_H
#define ANABRANCH_CODEGEN_KERNELCHOICES_H

#include "codegen/emit/KernelChoice.h"

namespace anabranch {
namespace codegen {

/// All choices, in order. The first one that does not refuse makes the kernel.
llvm::ArrayRef<KernelChoice> kernelChoices();

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_KERNELCHOICES_H
