//===- CallTimes.cpp - how long calls take --------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "calls/CallTimes.h"

#include <algorithm>

using namespace anabranch::python;

CallTimes &CallTimes::get() {
  static CallTimes times;
  return times;
}

void CallTimes::add(std::chrono::nanoseconds time) {
  double seconds = std::chrono::duration<double>(time).count();
  auto bucket = std::lower_bound(ends.begin(), ends.end(), seconds);
  counts[size_t(bucket - ends.begin())].fetch_add(1, std::memory_order_relaxed);
  nanoseconds.fetch_add(uint64_t(time.count()), std::memory_order_relaxed);
}
