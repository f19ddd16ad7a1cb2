//===- Clock.h - when something happened, cheaply ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Reading the processor's counter takes a third of the time that the system's
// clock takes. A trace reads both clocks when it begins and when it ends, which
// gives the length of a tick in nanoseconds.

#ifndef ANABRANCH_TRACE_CLOCK_H
#define ANABRANCH_TRACE_CLOCK_H

#include <cstdint>

#ifdef __x86_64__
#include <x86intrin.h>
#endif

namespace anabranch::trace {

/// Nanoseconds of the steady clock.
int64_t now();

/// Whether the processor's counter runs at one speed, also in idle states.
extern const bool countsEvenly;

/// The processor's counter; nanoseconds if it is no clock.
inline int64_t ticks() {
#ifdef __x86_64__
  if (countsEvenly)
    return static_cast<int64_t>(__rdtsc());
#endif
  return now();
}

/// Readings of both clocks at one moment.
struct Moment {
  int64_t ticks, nanoseconds;

  static Moment read();
};

/// Converts ticks between two moments, or near them, to nanoseconds.
class TickScale {
public:
  TickScale(Moment first, Moment last);
  int64_t nanoseconds(int64_t ticks) const;

private:
  Moment first;
  double perTick;
};

} // namespace anabranch::trace

#endif // ANABRANCH_TRACE_CLOCK_H
