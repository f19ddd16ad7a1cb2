//===- TaskAccesses.h - what the tasks touch --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The bytes that tasks touch: the input of the search for dependences, and of
// the proof that these suffice.

#ifndef ANABRANCH_RUNTIME_SUPERKERNEL_TASKACCESSES_H
#define ANABRANCH_RUNTIME_SUPERKERNEL_TASKACCESSES_H

#include "runtime/plan/LaunchOrder.h"
#include "runtime/superkernel/StridedRegion.h"

#include <algorithm>

namespace anabranch::runtime {

/// The bytes that the tasks of one launch touch through one operand.
struct OperandFootprint {
  int memory = 0; ///< equal for operands that can share bytes
  bool writes = false;
  int64_t begin = 0, end = 0; ///< of all regions together
  bool ordered = true; ///< neither the begins nor the ends of regions descend
  std::vector<StridedRegion> regions; ///< of the tasks, in order
  std::vector<int> first; ///< region of each task, and the number of all

  void add(const StridedRegion &region) {
    if (regions.empty()) {
      begin = region.begin;
      end = region.end();
    } else {
      ordered = ordered && region.begin >= regions.back().begin &&
                region.end() >= regions.back().end();
      begin = std::min(begin, region.begin);
      end = std::max(end, region.end());
    }
    regions.push_back(region);
  }

  /// Whether the two may share a byte, and one of them is written.
  bool mayConflict(const OperandFootprint &other) const {
    return memory == other.memory && (writes || other.writes) &&
           begin < other.end && other.begin < end;
  }
};

/// The launches of a super kernel, in an order in which one worker may run
/// them. Tasks are numbered through all launches.
struct TaskAccesses {
  struct Launch {
    int firstTask = 0, taskCount = 0;
    std::vector<OperandFootprint> operands;
  };
  std::vector<Launch> launches;
  std::vector<LaunchOrder> orders;

  int taskCount() const {
    return launches.empty()
               ? 0
               : launches.back().firstTask + launches.back().taskCount;
  }
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SUPERKERNEL_TASKACCESSES_H
