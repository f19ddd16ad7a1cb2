//===- LoopKernel.h - the kernel choice of plain loops ----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_LOOPS_LOOPKERNEL_H
#define ANABRANCH_CODEGEN_LOOPS_LOOPKERNEL_H

#include "codegen/emit/KernelChoice.h"

namespace anabranch {
namespace codegen {

/// The choice that can make any kernel. It runs shared loops where the
/// operations have them, else one operation after the other in a single tile.
extern const KernelChoice loopKernel;

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_LOOPS_LOOPKERNEL_H
