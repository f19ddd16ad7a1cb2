//===- QuotaBudgetTest.cpp - calls of one thread more ---------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/host/QuotaBudget.h"

#include <cmath>
#include <gtest/gtest.h>

namespace anabranch::testing {

using namespace machine;

namespace {

struct Load {
  double cpus; ///< that the process used on average
  double wide; ///< the part of the calls with one thread more
};

/// Calls that follow each other, each with `work` nanoseconds of CPU time.
Load callAlways(QuotaBudget &budget, double quota, int64_t work) {
  int64_t now = 1, used = 0;
  constexpr int calls = 10000;
  int wide = 0;
  for (int i = 0; i < calls; ++i) {
    auto threads = static_cast<int64_t>(quota);
    if (budget.isOpen() && budget.hasRoom(now, used)) {
      ++threads;
      ++wide;
    }
    now += work / threads;
    used += work;
  }
  return {static_cast<double>(used) / static_cast<double>(now),
          static_cast<double>(wide) / calls};
}

TEST(QuotaBudget, CallsUseWhatTheQuotaHas) {
  for (double quota : {1.1, 1.5, 1.9, 2.5, 3.25})
    for (int64_t work : {100'000, 3'000'000, 20'000'000}) {
      QuotaBudget budget;
      budget.look(quota, 0);
      Load load = callAlways(budget, quota, work);
      EXPECT_LE(load.cpus, quota) << quota << " " << work;
      EXPECT_GE(load.cpus, 0.95 * quota) << quota << " " << work;
    }
}

TEST(QuotaBudget, WholeQuotasHaveNothingToGiveOut) {
  for (double quota : {0.0, 0.5, 1.0, 2.0}) {
    QuotaBudget budget;
    budget.look(quota, 0);
    EXPECT_FALSE(budget.isOpen()) << quota;
  }
}

/// A call after a rest has a thread more, and a rest saves up for one call, not
/// for many.
TEST(QuotaBudget, RestsSaveUpLittle) {
  QuotaBudget budget;
  budget.look(1.5, 0);
  constexpr int64_t ms = 1'000'000;
  int64_t now = ms, used = 0;
  EXPECT_TRUE(budget.hasRoom(now, used));
  now += 60'000 * ms;
  EXPECT_TRUE(budget.hasRoom(now, used));
  now += 10 * ms;
  used += 20 * ms;
  EXPECT_FALSE(budget.hasRoom(now, used));
}

/// Other work of the process is forgiven soon.
TEST(QuotaBudget, DebtsHaveAnEnd) {
  QuotaBudget budget;
  budget.look(1.5, 0);
  constexpr int64_t ms = 1'000'000;
  int64_t now = ms, used = 0;
  EXPECT_TRUE(budget.hasRoom(now, used));
  now += 10'000 * ms;
  used += 100'000 * ms;
  EXPECT_FALSE(budget.hasRoom(now, used));
  now += 200 * ms;
  EXPECT_TRUE(budget.hasRoom(now, used));
}

/// Some throttling is the kernel's periods; much of it is other processes.
TEST(QuotaBudget, PausesWhileTheGroupIsThrottled) {
  QuotaBudget budget;
  int64_t periods = 70;
  budget.look(1.5, periods);
  EXPECT_TRUE(budget.isOpen());
  budget.look(1.5, periods += 2);
  EXPECT_TRUE(budget.isOpen());
  budget.look(1.5, periods += 15);
  EXPECT_FALSE(budget.isOpen());
  int waited = 0;
  for (; !budget.isOpen(); ++waited)
    budget.look(1.5, periods);
  EXPECT_GT(waited, 1);
  EXPECT_LT(waited, 64);
}

} // namespace
} // namespace anabranch::testing
