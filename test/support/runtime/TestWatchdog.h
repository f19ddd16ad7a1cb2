//===- TestWatchdog.h - an end for tests that hang --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SUPPORT_RUNTIME_TESTWATCHDOG_H
#define ANABRANCH_SUPPORT_RUNTIME_TESTWATCHDOG_H

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace anabranch::testing {

/// Ends the process if nothing happens for a minute. A thread that hangs cannot
/// be ended otherwise.
class Watchdog {
public:
  explicit Watchdog(const std::atomic<int64_t> &progress)
      : progress(progress), thread([this] { watch(); }) {}
  ~Watchdog() {
    over = true;
    thread.join();
  }

private:
  void watch() {
    int64_t seen = -1;
    for (int still = 0; !over; ++still) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (int64_t now = progress; now != seen)
        seen = now, still = 0;
      if (still == 20 * 60) {
        std::fprintf(stderr, "stalled after %lld launches\n",
                     static_cast<long long>(seen));
        std::abort();
      }
    }
  }

  const std::atomic<int64_t> &progress;
  std::atomic<bool> over{false};
  std::thread thread;
};

} // namespace anabranch::testing

#endif // ANABRANCH_SUPPORT_RUNTIME_TESTWATCHDOG_H
