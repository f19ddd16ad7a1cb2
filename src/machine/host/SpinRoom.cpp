//===- SpinRoom.cpp - whether idle workers may spin -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/host/SpinRoom.h"

#include <climits>

namespace anabranch::machine {

void SpinRoom::look(double quota, int64_t throttledPeriods) {
  bool throttled = seenPeriods >= 0 && throttledPeriods > seenPeriods;
  seenPeriods = throttledPeriods;
  if (quota <= 0) {
    most.store(INT_MAX, std::memory_order_relaxed);
    return;
  }
  bool waits = patience.mustWait(throttled);
  int whole = quota < INT_MAX ? static_cast<int>(quota) : INT_MAX;
  most.store(waits ? 0 : whole, std::memory_order_relaxed);
}

} // namespace anabranch::machine
