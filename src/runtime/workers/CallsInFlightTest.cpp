//===- CallsInFlightTest.cpp - turns, in the order of arrival -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/workers/CallsInFlight.h"

#include "machine/host/DefaultThreads.h"
#include "support/runtime/TestSupport.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace anabranch::testing {

using runtime::CallLimits;
using runtime::CallsInFlight;
using runtime::CallTurn;

namespace {

void sleepMs(int time) {
  std::this_thread::sleep_for(std::chrono::milliseconds(time));
}

/// Waits until `holds`, for a while.
template <typename Condition> bool soon(Condition holds) {
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!holds() && std::chrono::steady_clock::now() < end)
    sleepMs(1);
  return holds();
}

TEST(CallsInFlight, TakeTurnsInTheOrderOfArrival) {
  CallsInFlight calls([] { return CallLimits{2, 2}; });
  calls.enter(true);
  calls.enter(true);
  constexpr int many = 8;
  std::atomic<int> arrived{0}, order[many], begun{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < many; ++i) {
    threads.emplace_back([&, i] {
      ++arrived;
      calls.enter(true);
      order[begun++] = i;
      calls.leave();
    });
    ASSERT_TRUE(soon([&] { return arrived == i + 1; }));
    sleepMs(underThreadSanitizer ? 100 : 20); // it waits now
  }
  EXPECT_EQ(begun, 0);
  calls.leave();
  for (std::thread &thread : threads)
    thread.join();
  for (int i = 0; i < many; ++i)
    EXPECT_EQ(order[i], i);
  calls.leave();
}

TEST(CallsInFlight, NeverMoreThanMayRun) {
  CallsInFlight calls([] { return CallLimits{2, 3}; });
  std::atomic<int> running{0}, most{0}, done{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < 300; ++n) {
        calls.enter(true);
        int now = ++running, seen = most;
        while (seen < now && !most.compare_exchange_weak(seen, now))
          ;
        if (n % 16 == 0)
          std::this_thread::yield();
        --running;
        ++done;
        calls.leave();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(done, 8 * 300);
  EXPECT_LE(most, 3);
}

TEST(CallsInFlight, AreCrowdedForAMomentAfterwards) {
  CallsInFlight calls([] { return CallLimits{2, 2}; });
  calls.enter(true);
  EXPECT_FALSE(calls.wasCrowded());
  EXPECT_TRUE(calls.isAlone());
  calls.enter(true);
  EXPECT_TRUE(calls.isCrowded());
  calls.leave();
  EXPECT_FALSE(calls.isCrowded());
  EXPECT_TRUE(calls.wasCrowded());
  EXPECT_FALSE(calls.isAlone());
  EXPECT_TRUE(soon([&] { return !calls.wasCrowded() && calls.isAlone(); }));
  calls.leave();
}

TEST(CallsInFlight, OneCallIsNoCrowdOnOneCore) {
  CallsInFlight calls([] { return CallLimits{1, 1}; });
  calls.enter(true);
  EXPECT_FALSE(calls.isCrowded());
  calls.leave();
}

/// A call in the host may wait for calls of other threads.
TEST(CallsInFlight, ACallInTheHostLeavesItsTurn) {
  int most = machine::DefaultThreads::get().usableCpus();
  std::vector<CallTurn *> places(static_cast<size_t>(most));
  std::vector<std::unique_ptr<CallTurn>> turns;
  for (CallTurn *&place : places)
    turns.push_back(std::make_unique<CallTurn>(place, /*waits=*/true));
  {
    CallTurn::Pause pause(places[0]);
    CallTurn *place = nullptr;
    CallTurn nested(place, /*waits=*/true);
    EXPECT_EQ(place, &nested);
  }
  turns.clear();
  EXPECT_EQ(places[0], nullptr);
}

TEST(CallsInFlight, AChildBeginsWithNone) {
  if (underThreadSanitizer)
    GTEST_SKIP() << "forks";
  int most = machine::DefaultThreads::get().usableCpus();
  std::vector<CallTurn *> places(static_cast<size_t>(most));
  std::vector<std::unique_ptr<CallTurn>> turns;
  for (CallTurn *&place : places)
    turns.push_back(std::make_unique<CallTurn>(place, /*waits=*/true));
  pid_t child = ::fork();
  if (child == 0) {
    CallTurn *place = nullptr;
    CallTurn own(place, /*waits=*/true);
    ::_exit(CallsInFlight::get().isCrowded() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

} // namespace
} // namespace anabranch::testing
