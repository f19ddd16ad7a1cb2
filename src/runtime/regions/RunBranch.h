//===- RunBranch.h - run one of two regions ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_REGIONS_RUNBRANCH_H
#define ANABRANCH_RUNTIME_REGIONS_RUNBRANCH_H

#include "runtime/regions/RegionCaller.h"

namespace anabranch::runtime {

/// Runs the region that the predicate of branch `number` chooses. The region
/// reads the caller's buffers, and writes its results into them. Only the
/// thread that called the program may run it: the region may call the host.
Status runBranch(const RegionCaller &caller, int number);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_REGIONS_RUNBRANCH_H
