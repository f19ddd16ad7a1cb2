//===- KernelChoices.h - the ways to make a kernel --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_KERNELCHOICES_H
#define ANABRANCH_KERNELS_KERNELCHOICES_H

#include "kernels/emit/KernelChoice.h"

namespace anabranch {
namespace kernels {

/// All choices, in order. The first one that does not refuse makes the kernel.
llvm::ArrayRef<KernelChoice> kernelChoices();

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_KERNELCHOICES_H
