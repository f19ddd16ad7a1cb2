//===- CallTimes.h - how long calls take ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_CALLTIMES_H
#define ANABRANCH_BINDINGS_CALLTIMES_H

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace anabranch::python {

/// A histogram of the times of this process's calls, since `begin`. Any thread.
class CallTimes {
public:
  /// Upper ends of the buckets in seconds; one more bucket has the rest.
  static constexpr std::array<double, 16> ends = {
      1e-5, 2.5e-5, 5e-5,   1e-4, 2.5e-4, 5e-4,   1e-3, 2.5e-3,
      5e-3, 1e-2,   2.5e-2, 5e-2, 1e-1,   2.5e-1, 1.0,  10.0};

  static CallTimes &get();

  /// From now on calls are timed.
  void begin() { wanted.store(true, std::memory_order_relaxed); }
  bool isWanted() const { return wanted.load(std::memory_order_relaxed); }
  void add(std::chrono::nanoseconds time);

  /// Calls in the bucket of this number.
  uint64_t count(size_t bucket) const { return counts[bucket].load(); }
  double seconds() const { return double(nanoseconds.load()) * 1e-9; }

private:
  std::atomic<bool> wanted{false};
  std::array<std::atomic<uint64_t>, ends.size() + 1> counts{};
  std::atomic<uint64_t> nanoseconds{0};
};

/// Times a call from construction to `stop`, if times are wanted.
class CallTimer {
public:
  CallTimer() : wanted(CallTimes::get().isWanted()) {
    if (wanted)
      start = Clock::now();
  }
  void stop() const {
    if (wanted)
      CallTimes::get().add(Clock::now() - start);
  }

private:
  using Clock = std::chrono::steady_clock;
  bool wanted;
  Clock::time_point start;
};

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_CALLTIMES_H
