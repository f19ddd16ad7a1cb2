//===- BorrowedTeamTest.cpp - regions of the framework's team -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/workers/BorrowedTeam.h"

#include "runtime/workers/Pinning.h"
#include "support/runtime/TestSupport.h"
#include "support/runtime/TestTeam.h"

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

namespace anabranch::testing {

using runtime::BorrowedTeam;
using runtime::Job;
using runtime::TeamLease;
using runtime::WorkerScratch;

namespace {

/// A job whose pieces the caller hands out one by one, and others do.
class HandedOut : public Job {
public:
  HandedOut(int helpers, int pieces, int pauseUs)
      : Job(helpers), pieces(pieces), pauseUs(pauseUs) {}
  bool work(WorkerScratch &scratch) override {
    int before = offered.load();
    if (before == 0 || !offered.compare_exchange_strong(before, before - 1))
      return false;
    EXPECT_NE(scratch.reserve(1000), nullptr);
    {
      std::lock_guard<std::mutex> lock(mutex);
      workers.insert(std::this_thread::get_id());
    }
    ++done;
    return true;
  }
  void lead() override {
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (int i = 0; i < pieces; ++i) {
      // After a pause longer than they spin, the helpers are asleep.
      std::this_thread::sleep_for(std::chrono::microseconds(pauseUs));
      ++offered;
      team->notify(helpers);
      while (done <= i && std::chrono::steady_clock::now() < end)
        std::this_thread::yield();
    }
  }
  BorrowedTeam *team = nullptr;
  const int pieces, pauseUs;
  std::atomic<int> offered{0}, done{0};
  std::mutex mutex;
  std::set<std::thread::id> workers;
};

TEST(BorrowedTeam, HelpsAlsoAfterASleep) {
  TestTeam team(3);
  for (int pauseUs : {0, 0, 1500, 1500}) {
    TeamLease lease(3);
    ASSERT_TRUE(lease.get());
    HandedOut job(2, 20, pauseUs);
    job.team = lease.get();
    lease.get()->open(job);
    EXPECT_EQ(job.done, 20);
  }
  EXPECT_EQ(TestTeam::count(), 4);
}

/// The host may change the size of its team during a call.
TEST(BorrowedTeam, HasNoMoreHelpersThanTheCallWants) {
  TestTeam team(3);
  TeamLease lease(3);
  ASSERT_TRUE(lease.get());
  TestTeam larger(8);
  HandedOut job(2, 200, 0);
  job.team = lease.get();
  lease.get()->open(job);
  EXPECT_EQ(job.done, 200);
  EXPECT_LE(job.workers.size(), 2u);
}

/// Whether a call with this many threads may have the team.
bool mayHave(int threads) { return TeamLease(threads).get(); }

/// Likewise a call of another thread.
bool mayHaveElsewhere(int threads) {
  bool has = false;
  std::thread([&] { has = mayHave(threads); }).join();
  return has;
}

TEST(BorrowedTeam, IsLentToOneCallOfItsSize) {
  EXPECT_FALSE(mayHave(3));
  TestTeam team(3);
  EXPECT_FALSE(mayHave(2));
  EXPECT_FALSE(mayHave(4));
  {
    TeamLease first(3);
    EXPECT_TRUE(first.get());
    EXPECT_FALSE(mayHaveElsewhere(3));
  }
  EXPECT_TRUE(mayHaveElsewhere(3));
  TestTeam::isInside() = true;
  EXPECT_FALSE(mayHave(3));
  TestTeam::isInside() = false;
  ASSERT_TRUE(pinWorkers("cores").ok());
  EXPECT_FALSE(mayHave(3));
  ASSERT_TRUE(pinWorkers("off").ok());
  EXPECT_TRUE(mayHave(3));
}

TEST(BorrowedTeam, IsSharedWithCallsInsideOfTheCall) {
  TestTeam team(3);
  TeamLease outer(3);
  {
    TeamLease inner(3);
    EXPECT_EQ(inner.get(), outer.get());
    EXPECT_FALSE(mayHaveElsewhere(3));
  }
  EXPECT_FALSE(mayHaveElsewhere(3));
  HandedOut job(2, 20, 0);
  job.team = outer.get();
  outer.get()->open(job);
  EXPECT_EQ(job.done, 20);
}

TEST(BorrowedTeam, TheVariableIsReadAndChecked) {
  TestTeam team(3);
  ASSERT_EQ(::setenv("ANABRANCH_TEAM", "own", 1), 0);
  EXPECT_TRUE(runtime::teamFromEnvironment().ok());
  EXPECT_FALSE(mayHave(3));
  ASSERT_EQ(::setenv("ANABRANCH_TEAM", "framework", 1), 0);
  EXPECT_TRUE(runtime::teamFromEnvironment().ok());
  EXPECT_TRUE(mayHave(3));
  ASSERT_EQ(::setenv("ANABRANCH_TEAM", "both", 1), 0);
  EXPECT_EQ(runtime::teamFromEnvironment().message(),
            "ANABRANCH_TEAM must be own or framework, not 'both'");
  ::unsetenv("ANABRANCH_TEAM");
}

} // namespace
} // namespace anabranch::testing
