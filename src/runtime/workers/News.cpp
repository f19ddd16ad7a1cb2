//===- News.cpp - idle workers wait for something to claim ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/workers/News.h"

#include "machine/host/DefaultThreads.h"
#include "runtime/workers/Futex.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdlib>

namespace anabranch::runtime {

namespace {

constexpr long notSet = -1;

/// ANABRANCH_SPIN_US in microseconds.
long spinTimeOfEnvironment() {
  // A variable with a guard would stay locked in a child that is forked while
  // another thread reads the environment.
  constexpr long most = 100000, unread = -2;
  static std::atomic<long> known{unread};
  long time = known.load(std::memory_order_relaxed);
  if (time != unread)
    return time;
  const char *text = std::getenv("ANABRANCH_SPIN_US");
  char *end = nullptr;
  long given = text ? std::strtol(text, &end, 10) : notSet;
  bool valid = text && end != text && *end == '\0' && given >= 0;
  time = valid ? std::min(given, most) : notSet;
  known.store(time, std::memory_order_relaxed);
  return time;
}

/// How many microseconds an idle worker spins before it sleeps.
/// ANABRANCH_SPIN_US sets it. Else it is the time that the host needs between
/// two calls, less than a scheduler's slice: on a busy machine a worker that
/// sleeps must wait for a core before it can help again. It is zero if the
/// container's quota has no room for the worker.
std::chrono::microseconds spinTime(int worker) {
  constexpr long usual = 200;
  if (long time = spinTimeOfEnvironment(); time != notSet)
    return std::chrono::microseconds(time);
  bool hasRoom = worker + 1 < machine::DefaultThreads::get().spinLimit();
  return std::chrono::microseconds(hasRoom ? usual : 0);
}

} // namespace

void News::notifyAll() {
  epoch.fetch_add(1, std::memory_order_seq_cst);
  if (parked.load(std::memory_order_seq_cst) > 0)
    wake(INT_MAX);
}

void News::await(int worker, uint32_t seen) {
  std::chrono::microseconds time = spinTime(worker);
  if (time.count() == 0)
    return sleep(seen);
  auto end = std::chrono::steady_clock::now() + time;
  do {
    for (int i = 0; i < 32; ++i) {
      if (epoch.load(std::memory_order_relaxed) != seen)
        return;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  sleep(seen);
}

void News::sleep(uint32_t seen) {
  parked.fetch_add(1, std::memory_order_seq_cst);
  if (epoch.load(std::memory_order_seq_cst) == seen)
    futexWait(epoch, seen);
  parked.fetch_sub(1, std::memory_order_relaxed);
}

void News::wake(int count) { futexWake(epoch, count); }

} // namespace anabranch::runtime
