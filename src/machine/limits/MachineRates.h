//===- MachineRates.h - how fast cores work, as far as is known -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The schedule knows the rates of a measured machine. Without them, and at run
// time, where a decision must be the same in each process, cores count as usual
// ones.

#ifndef ANABRANCH_MACHINE_LIMITS_MACHINERATES_H
#define ANABRANCH_MACHINE_LIMITS_MACHINERATES_H

#include "machine/processor/MemoryUnits.h"

namespace anabranch::machine {

/// A core of a usual server. One FLOP or byte in a nanosecond is a GFLOP/s or a
/// GB/s.
struct UsualCore {
  static constexpr double gflops = 50;
  /// A command mostly reads another one's result from a cache, but not from
  /// the nearest one. Weights come from memory, of which each core has a share.
  static constexpr double cacheGBs = 20, memoryGBs = 10;
  /// From another core's cache: the latency of a line, then the rate.
  static constexpr double moveNanoseconds = 200, moveGBs = 10;
  /// From waking a thread to its first instruction.
  static constexpr double wakeMicroseconds = 10;
  /// Its first cache of data, and its own second one.
  static constexpr int64_t l1Bytes = 32 * KiB, l2Bytes = MiB;
};

/// The rates that cores reach, as MeasureMachine.h measures them. "All" means
/// all workers together. With one worker, streams never gain.
struct MachineRates {
  int workers = 1;
  double gflops = UsualCore::gflops, gflopsAll = UsualCore::gflops;
  double cacheGBs = UsualCore::cacheGBs, cacheGBsAll = UsualCore::cacheGBs;
  double wakeMicroseconds = UsualCore::wakeMicroseconds;
};

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_LIMITS_MACHINERATES_H
