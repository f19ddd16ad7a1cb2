//===- LoopKernel.h - the kernel choice of plain loops ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_LOOPS_LOOPKERNEL_H
#define ANABRANCH_KERNELS_LOOPS_LOOPKERNEL_H

#include "kernels/emit/KernelChoice.h"

namespace anabranch {
namespace kernels {

/// The choice that can make any kernel. It runs shared loops where the
/// operations have them, else one operation after the other in a single tile.
extern const KernelChoice loopKernel;

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_LOOPS_LOOPKERNEL_H
