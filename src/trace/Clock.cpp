//===- Clock.cpp - when something happened, cheaply -----------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "trace/Clock.h"

#include <chrono>

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace anabranch::trace {

static bool hasInvariantCounter() {
#ifdef __x86_64__
  constexpr unsigned powerManagement = 0x80000007, invariantCounter = 1U << 8;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(powerManagement, &a, &b, &c, &d) != 0 &&
         (d & invariantCounter) != 0;
#else
  return false;
#endif
}

const bool countsEvenly = hasInvariantCounter();

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Moment Moment::read() { return {trace::ticks(), now()}; }

TickScale::TickScale(Moment first, Moment last) : first(first), perTick(1) {
  if (last.ticks > first.ticks)
    perTick = static_cast<double>(last.nanoseconds - first.nanoseconds) /
              static_cast<double>(last.ticks - first.ticks);
}

int64_t TickScale::nanoseconds(int64_t ticks) const {
  return first.nanoseconds +
         static_cast<int64_t>(static_cast<double>(ticks - first.ticks) *
                              perTick);
}

} // namespace anabranch::trace
