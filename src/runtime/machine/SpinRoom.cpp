//===- SpinRoom.cpp - whether idle workers may spin -----------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "runtime/machine/SpinRoom.h"

#include <algorithm>
#include <climits>

namespace anabranch::runtime {

void SpinRoom::look(double quota, int64_t throttledPeriods) {
  bool throttled = seenPeriods >= 0 && throttledPeriods > seenPeriods;
  seenPeriods = throttledPeriods;
  if (quota <= 0) {
    most.store(INT_MAX, std::memory_order_relaxed);
    return;
  }
  if (throttled) {
    patience = calm > mostPatience ? leastPatience
                                   : std::min(2 * patience, mostPatience);
    waiting = patience;
    calm = 0;
  } else {
    waiting = std::max(waiting - 1, 0);
    calm = std::min(calm, mostPatience) + 1;
  }
  int whole = quota < INT_MAX ? static_cast<int>(quota) : INT_MAX;
  most.store(waiting > 0 ? 0 : whole, std::memory_order_relaxed);
}

} // namespace anabranch::runtime
