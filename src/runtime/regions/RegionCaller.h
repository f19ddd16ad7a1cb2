//===- RegionCaller.h - the call whose command runs a region ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_REGIONS_REGIONCALLER_H
#define ANABRANCH_RUNTIME_REGIONS_REGIONCALLER_H

#include "runtime/plan/BufferViews.h"
#include "runtime/plan/Plan.h"

namespace anabranch::runtime {

/// What a region's command needs of the call that it belongs to.
struct RegionCaller {
  const Plan &plan;
  const Commands &commands;
  const int64_t *slots; ///< the size table
  const BufferViews &buffers;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_REGIONS_REGIONCALLER_H
