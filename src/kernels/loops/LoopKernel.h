//===- LoopKernel.h - the plan of plain loops -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_LOOPS_LOOPKERNEL_H
#define ANABRANCH_KERNELS_LOOPS_LOOPKERNEL_H

#include "kernels/emit/Plan.h"

namespace anabranch {
namespace kernels {

/// The plan that can make any kernel. It runs shared loops where the
/// operations have them, else one operation after the other in a single tile.
extern const PlanRow loopsRow;

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_LOOPS_LOOPKERNEL_H
