//===- MeasureMachine.h - what a machine reaches ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_MACHINE_LIMITS_MEASUREMACHINE_H
#define ANABRANCH_MACHINE_LIMITS_MEASUREMACHINE_H

#include <cstdint>
#include <string>

namespace anabranch::machine {

/// The best rates that the machine reached in a few short loops: f32
/// multiply-adds, and reading memory. "All" means all CPUs of the process
/// together.
struct MachineLimits {
  std::string cpu; ///< "AMD EPYC 9R14, 2 CPUs"
  double gflops = 0, gflopsAll = 0;
  double cacheGBs = 0; ///< from the second-level cache, one CPU
  double memoryGBs = 0, memoryGBsAll = 0;
  double wakeMicroseconds = 0; ///< from waking a thread to its answer
  /// How many measurements in turn were disturbed: other programs had CPUs
  /// meanwhile. Zero if the last one was not.
  int disturbed = 0;
};

/// Measures for half a second, in short loops. Any thread.
MachineLimits measureMachineLimits();

/// The best rates of `threads` together, measured now. f32 multiply-adds in
/// GFLOP/s. Products of AMX registers of int8 or bf16 in GFLOP/s, whose
/// operands are `loaded` from the first-level cache or stay in registers; zero
/// if the process may not use them. Reading `bytes` again and again, of which
/// each thread has an equal part, in GB/s; zero if the memory cannot be had.
double measureGflops(int threads);
double measureAmxGflops(bool int8, bool loaded, int threads);
double measureReadGBs(int threads, int64_t bytes);

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_LIMITS_MEASUREMACHINE_H
