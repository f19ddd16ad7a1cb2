//===- WorkerScheduleTest.cpp - whose queue, and who takes it -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/superkernel/SuperKernelRun.h"
#include "runtime/superkernel/TaskDependences.h"
#include "runtime/superkernel/VerifyTaskGraph.h"

#include <gtest/gtest.h>
#include <set>
#include <thread>

namespace anabranch::runtime {
namespace {

/// Products, one after the other, of 8 tiles: 2 blocks of rows by 4 of columns.
/// A tile reads its rows of the product before, and the weights of its columns.
struct Products {
  static constexpr int rows = 2, columns = 4, tiles = rows * columns;
  static constexpr int64_t rowBytes = 4096;
  TaskAccesses accesses;
  TaskGraph graph;

  Products(int count, int64_t panelBytes) {
    for (int m = 0; m < count; ++m) {
      TaskAccesses::Launch member{m * tiles, tiles, {}};
      member.operands.resize(m ? 2 : 1);
      for (OperandFootprint &operand : member.operands)
        operand.first = {0};
      for (int i = 0; i < tiles; ++i)
        addTile(m, i, panelBytes, member);
      accesses.launches.push_back(std::move(member));
    }
    findDependences(accesses, graph);
    EXPECT_EQ(verifyTaskGraph(accesses, graph), "");
  }

  static int columnOf(int task) { return task % columns; }
  static int rowOf(int task) { return task / columns % rows; }

private:
  void addTile(int m, int i, int64_t panelBytes, TaskAccesses::Launch &member) {
    Task task;
    task.launch = m;
    task.tile = i;
    task.tiles = 1;
    graph.tasks.push_back(task);
    graph.times.push_back(1000);
    graph.serialTime += 1000;
    graph.bytes.push_back(static_cast<double>(rowBytes) / columns);
    graph.reads.push_back(m ? rowBytes : 0);
    graph.constants.push_back(
        {m, {columnOf(i) * panelBytes, panelBytes, 0, 1}});
    int64_t row = rowOf(i) * rowBytes, part = rowBytes / columns;
    member.operands[0].memory = m;
    member.operands[0].writes = true;
    member.operands[0].add({row + columnOf(i) * part, part, 0, 1});
    member.operands[0].first.push_back(i + 1);
    if (m == 0)
      return;
    member.operands[1].memory = m - 1;
    member.operands[1].add({row, rowBytes, 0, 1});
    member.operands[1].first.push_back(i + 1);
  }
};

std::vector<int> queueOf(const WorkerSchedule &schedule, int worker) {
  return {schedule.tasks.begin() + schedule.first[worker],
          schedule.tasks.begin() + schedule.first[worker + 1]};
}

TEST(WorkerSchedule, ShareOutWeightsThatNoCacheHolds) {
  Products products(6, 64 << 10);
  WorkerSchedule schedule = scheduleTasks(products.graph, 2);
  for (int w = 0; w < 2; ++w) {
    std::vector<int> queue = queueOf(schedule, w);
    EXPECT_EQ(queue.size(), 24u);
    for (size_t at = 0; at < queue.size(); ++at) {
      EXPECT_EQ(Products::columnOf(queue[at]) / 2, w);
      // Tiles with the same weights are neighbours.
      if (at % 2)
        EXPECT_EQ(Products::columnOf(queue[at]),
                  Products::columnOf(queue[at - 1]));
    }
  }
}

TEST(WorkerSchedule, KeepRowsWhereTheWeightsOfAllFitIntoACache) {
  Products products(6, 4 << 10);
  WorkerSchedule schedule = scheduleTasks(products.graph, 2);
  for (int w = 0; w < 2; ++w)
    for (int task : queueOf(schedule, w))
      EXPECT_EQ(Products::rowOf(task), w);
}

TEST(WorkerSchedule, MoreWorkersThanPartsOfTheWeightsShareThem) {
  Products products(4, 64 << 10);
  WorkerSchedule schedule = scheduleTasks(products.graph, 8);
  for (int w = 0; w < 8; ++w)
    EXPECT_EQ(queueOf(schedule, w).size(), 4u);
}

class WorkerSlots : public ::testing::Test {
protected:
  WorkerSlots() {
    run.bind(
        std::make_shared<const ScheduledTasks>(Products(2, 256 << 10).graph));
    run.chooseSchedule(2);
    run.begin();
  }
  /// Finishes a task that `take` returned.
  void end(int task) {
    ASSERT_GE(task, 0);
    run.signal(task);
    run.finish(1);
  }

  SuperKernelRun run;
};

TEST_F(WorkerSlots, AThreadTakesTheSlotThatItHadBefore) {
  std::set<int> slots;
  auto takeTwice = [&] {
    int slot = run.takeSlot();
    slots.insert(slot);
    run.leaveSlot(slot);
    EXPECT_EQ(run.takeSlot(), slot);
  };
  std::thread(takeTwice).join();
  // The other thread gets the slot that is left, and gets it again when both
  // slots are free.
  std::thread([&] {
    takeTwice();
    run.leaveSlot(0);
    run.leaveSlot(1);
    EXPECT_EQ(run.takeSlot(), 1);
  }).join();
  EXPECT_EQ(slots, (std::set<int>{0, 1}));
}

TEST_F(WorkerSlots, NobodyStealsBeforeTime) {
  int mine = run.takeSlot(), theirs = run.takeSlot();
  ASSERT_NE(mine, theirs);
  bool steals = false;
  for (int i = 0; i < 4; ++i)
    end(run.take(mine, steals));
  // The next task depends on the other queue, whose owner is late.
  EXPECT_EQ(run.take(mine, steals), -1);
  steals = true;
  for (int i = 0; i < 3; ++i) {
    end(run.take(mine, steals));
    EXPECT_TRUE(steals);
  }
  // The first row is done. A task of the own queue resets `steals`.
  EXPECT_GE(run.take(mine, steals), 0);
  EXPECT_FALSE(steals);
}

TEST_F(WorkerSlots, AQueueWhoseSlotIsFreeIsEverybodys) {
  int mine = run.takeSlot();
  bool steals = false;
  for (int i = 0; i < 2 * Products::tiles; ++i)
    end(run.take(mine, steals));
  EXPECT_TRUE(run.isTaken());
  EXPECT_EQ(run.take(mine, steals), -1);
}

} // namespace
} // namespace anabranch::runtime
