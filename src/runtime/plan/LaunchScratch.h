//===- LaunchScratch.h - a worker's memory in a launch ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_PLAN_LAUNCHSCRATCH_H
#define ANABRANCH_RUNTIME_PLAN_LAUNCHSCRATCH_H

#include <cstdint>

namespace anabranch::runtime {

/// A worker's scratch memory, and what it holds from one tile to the next.
struct LaunchScratch {
  void *memory;
  /// The launch whose setup has filled the memory, by a number that no other
  /// launch of any call has; 0: none.
  uint64_t &setup;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_PLAN_LAUNCHSCRATCH_H
