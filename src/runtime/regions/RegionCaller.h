//===- RegionCaller.h - the call whose command runs a region ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_REGIONS_REGIONCALLER_H
#define ANABRANCH_RUNTIME_REGIONS_REGIONCALLER_H

#include "runtime/plan/BufferViews.h"
#include "runtime/plan/Plan.h"

namespace anabranch::runtime {

/// The parts of a call that a region's command needs.
struct RegionCaller {
  const Plan &plan;
  const Commands &commands;
  const int64_t *slots; ///< the size table
  BufferViews &buffers;

  /// The bool in a buffer. A device that computes nothing leaves the memory as
  /// it was, so there it is false.
  bool holds(int buffer) const {
    return plan.device->computes() &&
           *static_cast<const bool *>(buffers.viewOf(buffer).data);
  }

  /// The number in a buffer, of a float the bits; zero on a device that
  /// computes nothing.
  int64_t itemOf(int buffer) const;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_REGIONS_REGIONCALLER_H
