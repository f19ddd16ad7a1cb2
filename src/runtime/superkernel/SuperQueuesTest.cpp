//===- SuperQueuesTest.cpp - whose list an item is in, and who takes it ---===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "runtime/superkernel/SuperRun.h"

#include <gtest/gtest.h>
#include <set>
#include <thread>

namespace anabranch::runtime {
namespace {

/// Products, one after the other: 8 tiles, 2 blocks of rows by 4 of columns. A
/// tile reads its rows of what the one before wrote, and the weights of its
/// columns.
struct Products {
  static constexpr int rows = 2, columns = 4, tiles = rows * columns;
  static constexpr int64_t rowBytes = 4096;
  SuperShape shape;
  SuperPlan plan;

  Products(int count, int64_t panelBytes) {
    for (int m = 0; m < count; ++m) {
      SuperShape::Member member{m * tiles, tiles, {}};
      member.groups.resize(m ? 2 : 1);
      for (TouchGroup &group : member.groups)
        group.first = {0};
      for (int i = 0; i < tiles; ++i)
        addTile(m, i, panelBytes, member);
      shape.members.push_back(std::move(member));
    }
    findWaits(shape, plan);
    EXPECT_EQ(verifySuper(shape, plan), "");
  }

  static int columnOf(int item) { return item % columns; }
  static int rowOf(int item) { return item / columns % rows; }

private:
  void addTile(int m, int i, int64_t panelBytes, SuperShape::Member &member) {
    SuperItem item;
    item.launch = m;
    item.tile = i;
    item.tiles = 1;
    plan.items.push_back(item);
    plan.times.push_back(1000);
    plan.serialTime += 1000;
    plan.bytes.push_back(static_cast<double>(rowBytes) / columns);
    plan.reads.push_back(m ? rowBytes : 0);
    plan.fetches.push_back({m, {columnOf(i) * panelBytes, panelBytes, 0, 1}});
    int64_t row = rowOf(i) * rowBytes, part = rowBytes / columns;
    member.groups[0].memory = m;
    member.groups[0].writes = true;
    member.groups[0].add({row + columnOf(i) * part, part, 0, 1});
    member.groups[0].first.push_back(i + 1);
    if (m == 0)
      return;
    member.groups[1].memory = m - 1;
    member.groups[1].add({row, rowBytes, 0, 1});
    member.groups[1].first.push_back(i + 1);
  }
};

std::vector<int> listOf(const SuperQueues &queues, int worker) {
  return {queues.items.begin() + queues.first[worker],
          queues.items.begin() + queues.first[worker + 1]};
}

TEST(SuperQueues, ShareOutWeightsThatNoCacheHolds) {
  Products products(6, 64 << 10);
  const SuperQueues &queues = products.plan.queuesFor(2);
  for (int w = 0; w < 2; ++w) {
    std::vector<int> list = listOf(queues, w);
    EXPECT_EQ(list.size(), 24u);
    for (size_t at = 0; at < list.size(); ++at) {
      EXPECT_EQ(Products::columnOf(list[at]) / 2, w);
      // Tiles with the same weights follow each other.
      if (at % 2)
        EXPECT_EQ(Products::columnOf(list[at]),
                  Products::columnOf(list[at - 1]));
    }
  }
}

TEST(SuperQueues, KeepRowsWhereTheWeightsOfAllFitIntoACache) {
  Products products(6, 4 << 10);
  const SuperQueues &queues = products.plan.queuesFor(2);
  for (int w = 0; w < 2; ++w)
    for (int item : listOf(queues, w))
      EXPECT_EQ(Products::rowOf(item), w);
}

TEST(SuperQueues, MoreWorkersThanPartsOfTheWeightsShareThem) {
  Products products(4, 64 << 10);
  const SuperQueues &queues = products.plan.queuesFor(8);
  for (int w = 0; w < 8; ++w)
    EXPECT_EQ(listOf(queues, w).size(), 4u);
}

class SuperSeats : public ::testing::Test {
protected:
  SuperSeats() : products(2, 256 << 10), run(products.plan) {
    run.plan(2);
    run.begin();
  }
  /// Ends what `take` gave.
  void end(int item) {
    ASSERT_GE(item, 0);
    run.signal(item);
    run.finish(1);
  }

  Products products;
  SuperRun run;
};

TEST_F(SuperSeats, AThreadSitsWhereItSatBefore) {
  std::set<int> seats;
  auto sitTwice = [&] {
    int seat = run.sit();
    seats.insert(seat);
    run.rise(seat);
    EXPECT_EQ(run.sit(), seat);
  };
  std::thread(sitTwice).join();
  // The other seat is left, and kept when both are free again.
  std::thread([&] {
    sitTwice();
    run.rise(0);
    run.rise(1);
    EXPECT_EQ(run.sit(), 1);
  }).join();
  EXPECT_EQ(seats, (std::set<int>{0, 1}));
}

TEST_F(SuperSeats, NobodyIsHelpedBeforeTime) {
  int mine = run.sit(), theirs = run.sit();
  ASSERT_NE(mine, theirs);
  bool helps = false;
  for (int i = 0; i < 4; ++i)
    end(run.take(mine, helps));
  // The next one waits for the other list, whose owner is late.
  EXPECT_EQ(run.take(mine, helps), -1);
  helps = true;
  for (int i = 0; i < 3; ++i) {
    end(run.take(mine, helps));
    EXPECT_TRUE(helps);
  }
  // The first row is there; an item of its own ends the help.
  EXPECT_GE(run.take(mine, helps), 0);
  EXPECT_FALSE(helps);
}

TEST_F(SuperSeats, AListThatNobodySitsAtIsEverybodys) {
  int mine = run.sit();
  bool helps = false;
  for (int i = 0; i < 2 * Products::tiles; ++i)
    end(run.take(mine, helps));
  EXPECT_TRUE(run.isTaken());
  EXPECT_EQ(run.take(mine, helps), -1);
}

} // namespace
} // namespace anabranch::runtime
