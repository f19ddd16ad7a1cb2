//===- TestTeam.h - a team as a framework has one ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SUPPORT_RUNTIME_TESTTEAM_H
#define ANABRANCH_SUPPORT_RUNTIME_TESTTEAM_H

#include "anabranch/Machine.h"

#include <atomic>
#include <thread>
#include <vector>

namespace anabranch::testing {

/// Gives the runtime a team of this many threads for each calling thread, while
/// it exists. Each region starts its threads anew, which sanitizers follow.
class TestTeam {
public:
  explicit TestTeam(int size) {
    threads = size;
    regions = 0;
    setFrameworkTeam(&team);
  }
  ~TestTeam() { setFrameworkTeam(nullptr); }
  TestTeam(const TestTeam &) = delete;
  TestTeam &operator=(const TestTeam &) = delete;

  /// How many regions have begun.
  static int count() { return regions; }
  /// Whether this thread is in a region.
  static bool &isInside() {
    static thread_local bool inside = false;
    return inside;
  }

private:
  using Body = void (*)(void *data, int number);

  static void enter(Body body, void *data, int number) {
    isInside() = true;
    body(data, number);
    isInside() = false;
  }
  static void run(Body body, void *data) {
    ++regions;
    std::vector<std::thread> others;
    for (int number = 1; number < threads; ++number)
      others.emplace_back(enter, body, data, number);
    enter(body, data, 0);
    for (std::thread &other : others)
      other.join();
  }
  static int size() { return isInside() ? 1 : threads.load(); }

  static inline std::atomic<int> threads{1}, regions{0};
  static constexpr FrameworkTeam team{size, run, "test"};
};

} // namespace anabranch::testing

#endif // ANABRANCH_SUPPORT_RUNTIME_TESTTEAM_H
