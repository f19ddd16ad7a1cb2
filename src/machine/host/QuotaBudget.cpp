//===- QuotaBudget.cpp - whether a quota has time for one more ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/host/QuotaBudget.h"

#include <algorithm>
#include <cmath>

namespace anabranch::machine {

bool QuotaBudget::sharesOut(double quota) {
  return quota > 1 && std::floor(quota) < quota;
}

void QuotaBudget::look(double found, int64_t throttledPeriods) {
  bool throttled =
      seenPeriods >= 0 && throttledPeriods > seenPeriods + fewPeriods;
  seenPeriods = throttledPeriods;
  bool waits = patience.mustWait(throttled);
  quota.store(sharesOut(found) && !waits ? found : 0,
              std::memory_order_relaxed);
}

bool QuotaBudget::hasRoom(int64_t now, int64_t used) {
  if (counting.test_and_set(std::memory_order_acquire))
    return last.load(std::memory_order_relaxed);
  if (lastNow != 0) {
    double earned = planned * quota.load(std::memory_order_relaxed) *
                    static_cast<double>(now - lastNow);
    auto spent = static_cast<double>(used - lastUsed);
    // A call may save up for another one of its length.
    saved = std::clamp(saved + earned - spent, -mostOwed,
                       std::max(mostSaved, spent));
  }
  lastNow = now;
  lastUsed = used;
  bool hasRoom = saved >= 0;
  last.store(hasRoom, std::memory_order_relaxed);
  counting.clear(std::memory_order_release);
  return hasRoom;
}

} // namespace anabranch::machine
