//===- Clock.h - when something happened, cheaply ---------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Reading the processor's counter takes a third of the time that the system's
// clock takes. What its ticks are in nanoseconds follows from reading both
// clocks when a trace begins and when it ends.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_TRACE_CLOCK_H
#define ANABRANCH_TRACE_CLOCK_H

#include <cstdint>

#ifdef __x86_64__
#include <x86intrin.h>
#endif

namespace anabranch::trace {

/// Nanoseconds of the steady clock.
int64_t now();

/// Whether the processor's counter goes at one speed, in idle states too.
extern const bool countsEvenly;

/// The processor's counter; nanoseconds where it is no clock.
inline int64_t ticks() {
#ifdef __x86_64__
  if (countsEvenly)
    return static_cast<int64_t>(__rdtsc());
#endif
  return now();
}

/// Both clocks at once.
struct Moment {
  int64_t ticks, nanoseconds;

  static Moment read();
};

/// From ticks between two moments, or near them, to nanoseconds.
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
