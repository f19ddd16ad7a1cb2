//===- Clock.cpp - when something happened, cheaply -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "trace/Clock.h"

#include "machine/processor/CpuFeatures.h"

#include <chrono>

namespace anabranch::trace {

const bool countsEvenly = machine::hasInvariantCounter();

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Moment Moment::read() {
  // The thread may lose its core between two readings, so the system's clock is
  // read between two of the counter, and the closest pair counts.
  constexpr int attempts = 8;
  Moment best{};
  int64_t closest = INT64_MAX;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    int64_t before = trace::ticks(), nanoseconds = now();
    int64_t apart = trace::ticks() - before;
    if (apart < closest) {
      closest = apart;
      best = {before + apart / 2, nanoseconds};
    }
  }
  return best;
}

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
