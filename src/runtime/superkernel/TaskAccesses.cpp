//===- TaskAccesses.cpp - what the tasks touch ----------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/superkernel/TaskAccesses.h"

#include <algorithm>

namespace anabranch::runtime {

void OperandFootprint::add(const StridedRegion &region) {
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

} // namespace anabranch::runtime
