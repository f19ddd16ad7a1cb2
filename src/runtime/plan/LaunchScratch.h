//===- LaunchScratch.h - a worker's memory in a launch ----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

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
