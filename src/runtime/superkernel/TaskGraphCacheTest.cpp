//===- TaskGraphCacheTest.cpp - tasks for the sizes of calls --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/superkernel/TaskGraphCache.h"
#include "support/runtime/TestSupport.h"

#include <gtest/gtest.h>

namespace anabranch::testing {
namespace {

using namespace runtime;

/// Launches over `n` rows of 64 bytes, a tile for each row. Each reads what the
/// one before writes. Slot 0 is `n`; slot 1 decides nothing.
class TaskGraphs : public ::testing::Test {
protected:
  TaskGraphs() { addLaunches(2); }

  void addLaunches(int count) {
    addBuffer();
    auto info = plan.info ? std::make_shared<trace::ProgramInfo>(*plan.info)
                          : std::make_shared<trace::ProgramInfo>();
    for (int i = 0; i < count; ++i) {
      addLaunch();
      trace::Label label;
      label.work.emplace();
      label.work->flops.push_back({1e5, {{0, 0}}});
      info->labels.push_back(label);
    }
    plan.info = info;
    super.launchCount = static_cast<int>(commands.launches.size());
  }

  void addBuffer() {
    BufferPlan buffer;
    buffer.kind = BufferKind::External;
    buffer.shape = {Size(0, 0), Size(16, -1)};
    plan.buffers.push_back(buffer);
  }

  void addLaunch() {
    LaunchPlan launch;
    launch.kernel.grid = [](const int64_t *sizes, anabranch_kernel_plan *grid) {
      *grid = {sizes[0], 0};
    };
    launch.kernel.footprint = [](const int64_t *, int64_t tile,
                                 anabranch_strided_region *regions) {
      regions[0] = regions[1] = {tile * 64, 64, 0, 1};
    };
    auto number = static_cast<int>(plan.buffers.size());
    launch.firstOperand = static_cast<int>(commands.operands.size());
    launch.operandCount = 2;
    launch.inputCount = 1;
    launch.firstSize = static_cast<int>(commands.sizes.size());
    launch.sizeCount = 1;
    commands.launches.push_back(launch);
    commands.operands.insert(commands.operands.end(), {number - 1, number});
    commands.sizes.emplace_back(0, 0);
    addBuffer();
  }

  /// The tasks of a call, or -1 if it runs the launches.
  static int64_t find(const TaskGraphCache &cache, int64_t n,
                      int64_t other = 0) {
    auto found = cache.find({n, other});
    EXPECT_TRUE(found.ok()) << found.status().message();
    return found.ok() && *found
               ? static_cast<int64_t>((*found)->graph.tasks.size())
               : -1;
  }

  Plan plan;
  Commands commands;
  SuperKernel super;
};

TEST_F(TaskGraphs, ComeWithTheSecondCallOfABinding) {
  TaskGraphCache cache(plan, commands, super);
  EXPECT_FALSE(cache.isStatic());
  EXPECT_TRUE(cache.load().ok());
  for (int64_t n : {0, 1, 7, 64}) {
    EXPECT_EQ(find(cache, n), -1);
    EXPECT_EQ(find(cache, n), 2 * n);
    EXPECT_EQ(*cache.find({n, 0}), *cache.find({n, 0})) << "is kept";
  }
  EXPECT_EQ(find(cache, 7, /*other=*/5), 14) << "a slot that decides nothing";
  auto old = *cache.find({7, 0});
  cache.trim();
  EXPECT_EQ(find(cache, 7), -1);
  EXPECT_EQ(old->graph.tasks.size(), 14u) << "calls in flight keep theirs";
}

TEST_F(TaskGraphs, OfTheLatestBindingsAreKept) {
  TaskGraphCache cache(plan, commands, super);
  for (int64_t n : {1, 2, 1, 2})
    find(cache, n);
  for (size_t n = 0; n < TaskGraphCache::mostBindings; ++n) {
    EXPECT_EQ(find(cache, static_cast<int64_t>(100 + n)), -1);
    EXPECT_EQ(find(cache, 1), 2) << "is in use";
  }
  EXPECT_EQ(find(cache, 2), -1) << "was used longest ago";
}

TEST_F(TaskGraphs, AreKeptUpToANumberOfTasks) {
  addLaunches(30);
  TaskGraphCache cache(plan, commands, super);
  // Each binding has 32 launches of some 200 tasks.
  constexpr int64_t first = 200, few = TaskGraphCache::mostTasks / (32 * first);
  for (int64_t n = first; n <= first + few; ++n) {
    EXPECT_EQ(find(cache, n), -1);
    EXPECT_EQ(find(cache, n), 32 * n);
  }
  EXPECT_EQ(find(cache, first), -1) << "was used longest ago";
  EXPECT_EQ(find(cache, first + few), 32 * (first + few));
}

TEST_F(TaskGraphs, AreOneForAllThreads) {
  TaskGraphCache cache(plan, commands, super);
  expectOnThreads(4, [&](unsigned t) {
    for (int64_t i = 0; i < 300; ++i) {
      int64_t n = 1 + (i * 7 + t) % 80, tasks = find(cache, n);
      if (tasks != -1 && tasks != 2 * n)
        return std::to_string(tasks) + " tasks for " + std::to_string(n);
    }
    return std::string();
  });
}

} // namespace
} // namespace anabranch::testing
