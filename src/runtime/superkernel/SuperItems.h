//===- SuperItems.h - cut a super kernel into items -------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_SUPERKERNEL_SUPERITEMS_H
#define ANABRANCH_RUNTIME_SUPERKERNEL_SUPERITEMS_H

#include "runtime/load/Plan.h"

namespace anabranch::runtime {

/// The plan of one super kernel of a plan that has all its buffers, proven. An
/// error if a kernel's grid makes no sense.
Expected<std::unique_ptr<SuperPlan>>
planSuper(const Plan &plan, const Commands &commands, const SuperKernel &super);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SUPERKERNEL_SUPERITEMS_H
