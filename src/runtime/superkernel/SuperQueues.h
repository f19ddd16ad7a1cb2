//===- SuperQueues.h - which worker runs which item, and when ---*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_SUPERKERNEL_SUPERQUEUES_H
#define ANABRANCH_RUNTIME_SUPERKERNEL_SUPERQUEUES_H

#include <vector>

namespace anabranch::runtime {

struct SuperPlan;

/// The items of a super kernel, one list for each worker. All lists together
/// are in one order that keeps every wait, so that the first item that is not
/// done is at the head of a list or running, whoever takes heads.
struct SuperQueues {
  std::vector<int> items; ///< of all lists, one after the other
  std::vector<int> first; ///< by worker, and the number of all
  std::vector<int> order; ///< the one order
  double time = 0;        ///< nanoseconds that the workers need, estimated

  int workers() const { return static_cast<int>(first.size()) - 1; }
};

/// List scheduling: whoever is free takes an item that is ready, of those whose
/// input it made itself first.
SuperQueues fillQueues(const SuperPlan &plan, int workers);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SUPERKERNEL_SUPERQUEUES_H
