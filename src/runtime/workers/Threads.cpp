//===- Threads.cpp - how many workers a call may use ----------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "anabranch/Executable.h"

#include <atomic>
#include <cstdlib>
#include <sched.h>
#include <thread>

namespace anabranch {

namespace {

constexpr int threadLimit = 256;

std::atomic<int> chosen{0};

int clamp(long threads) {
  return static_cast<int>(threads < 1             ? 1
                          : threads > threadLimit ? threadLimit
                                                  : threads);
}

int fromEnvironment() {
  if (const char *text = std::getenv("ANABRANCH_NUM_THREADS")) {
    char *end;
    long threads = std::strtol(text, &end, 10);
    if (end != text && *end == '\0' && threads > 0)
      return clamp(threads);
  }
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0)
    return clamp(CPU_COUNT(&set));
  return clamp(static_cast<long>(std::thread::hardware_concurrency()));
}

} // namespace

int defaultThreads() {
  if (int threads = chosen.load(std::memory_order_relaxed))
    return threads;
  static const int threads = fromEnvironment();
  return threads;
}

void setDefaultThreads(int threads) {
  chosen.store(threads <= 0 ? 0 : clamp(threads), std::memory_order_relaxed);
}

} // namespace anabranch
