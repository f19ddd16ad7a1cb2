//===- SuperPlanTest.cpp - waits and lists, against all pairs -------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "runtime/superkernel/SuperPlan.h"

#include <algorithm>
#include <bitset>
#include <ctime>
#include <gtest/gtest.h>
#include <random>

namespace anabranch::runtime {

namespace {

constexpr int memoryBytes = 512, pitch = 64;
using Bytes = std::bitset<memoryBytes>;

Bytes bytesOf(const Reach &r) {
  Bytes bytes;
  for (int64_t i = 0; i < r.count; ++i)
    for (int64_t b = 0; b < r.width; ++b)
      bytes.set(static_cast<size_t>(r.begin + i * r.pitch + b));
  return bytes;
}

/// A shape, and its plan without waits.
struct Made {
  SuperShape shape;
  SuperPlan plan;

  void member(int items) {
    shape.members.push_back({shape.itemCount(), items, {}});
    for (int i = 0; i < items; ++i) {
      SuperItem item;
      item.launch = static_cast<int>(shape.members.size()) - 1;
      item.tile = i;
      item.tiles = 1;
      plan.items.push_back(item);
      plan.times.push_back(1000);
      plan.bytes.push_back(64);
      plan.reads.push_back(64);
      plan.fetches.emplace_back();
      plan.serialTime += 1000;
    }
  }
  /// What item i of the last member touches is reaches(i).
  template <typename Reaches>
  void touch(int memory, bool writes, Reaches reaches) {
    SuperShape::Member &m = shape.members.back();
    m.groups.emplace_back();
    TouchGroup &group = m.groups.back();
    group.memory = memory;
    group.writes = writes;
    group.first = {0};
    for (int i = 0; i < m.itemCount; ++i) {
      for (const Reach &reach : reaches(i))
        group.add(reach);
      group.first.push_back(static_cast<int>(group.reaches.size()));
    }
  }
};

/// Part `i` of `parts` of an 8 x 64 block of bytes: rows, columns, all, parts
/// beside it too, or a few scattered rows.
std::vector<Reach> partOf(int kind, int i, int parts) {
  switch (kind) {
  case 0: {
    int64_t begin = int64_t(i) * memoryBytes / parts;
    return {{begin, int64_t(i + 1) * memoryBytes / parts - begin, 0, 1}};
  }
  case 1: {
    int64_t begin = int64_t(i) * pitch / parts,
            width = int64_t(i + 1) * pitch / parts - begin;
    if (width == pitch)
      return {{0, memoryBytes, 0, 1}};
    return {{begin, width, pitch, memoryBytes / pitch}};
  }
  case 2:
    return {{0, memoryBytes, 0, 1}};
  case 3: {
    int from = std::max(i - 1, 0), to = std::min(i + 2, parts);
    int64_t begin = int64_t(from) * memoryBytes / parts;
    return {{begin, int64_t(to) * memoryBytes / parts - begin, 0, 1}};
  }
  default:
    return {{int64_t(i % 8) * pitch, 5, 0, 1},
            {int64_t((i * 5 + 3) % 8) * pitch + 9, 20, 0, 1}};
  }
}

std::unique_ptr<Made> randomShape(unsigned seed, int members) {
  auto made = std::make_unique<Made>();
  std::mt19937 random(seed);
  auto below = [&](int end) { return static_cast<int>(random() % end); };
  for (int m = 0; m < members; ++m) {
    static const int counts[] = {1, 2, 4, 8, 16, 0, 5};
    int items = counts[below(7)];
    made->member(items);
    for (int reads = below(3); reads > 0; --reads)
      made->touch(below(4), false, [&, kind = below(5)](int i) {
        return partOf(kind, i, items);
      });
    made->touch(below(4), true,
                [&, kind = below(2)](int i) { return partOf(kind, i, items); });
  }
  // Some cuts, of which some members stand ahead and others behind.
  for (int orders = below(3); orders > 0; --orders) {
    int cut = 1 + below(members - 1);
    SuperShape::Order order;
    for (int m = 0; m < members; ++m)
      if (below(3) == 0)
        (m < cut ? order.before : order.after).push_back(m);
    if (!order.before.empty() && !order.after.empty())
      made->shape.orders.push_back(order);
  }
  return made;
}

/// Everything that the counters order, the slow way: before[b] has a.
std::vector<std::vector<bool>> orderOf(const SuperPlan &plan) {
  size_t count = plan.items.size();
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count));
  for (size_t i = 0; i < count; ++i)
    for (int w = 0; w < plan.items[i].waits; ++w) {
      int counter = plan.waits[plan.items[i].firstWait + w].counter;
      for (size_t j = 0; j < i; ++j)
        for (int s = 0; s < plan.items[j].signals; ++s)
          if (plan.signals[plan.items[j].firstSignal + s] == counter) {
            before[i][j] = true;
            for (size_t k = 0; k < j; ++k)
              before[i][k] = before[i][k] || before[j][k];
          }
    }
  return before;
}

/// How many pairs that the shape orders, or that conflict, nothing orders.
int unordered(const SuperShape &shape, const SuperPlan &plan) {
  std::vector<std::vector<bool>> before = orderOf(plan);
  int missing = 0;
  auto has = [](const std::vector<int> &list, size_t member) {
    return std::count(list.begin(), list.end(), static_cast<int>(member)) > 0;
  };
  auto isAsked = [&](size_t a, size_t b) {
    for (const SuperShape::Order &order : shape.orders)
      if (has(order.before, a) && has(order.after, b))
        return true;
    return false;
  };
  auto conflict = [&](const SuperShape::Member &a, int i,
                      const SuperShape::Member &b, int j) {
    for (const TouchGroup &x : a.groups)
      for (const TouchGroup &y : b.groups) {
        if (x.memory != y.memory || !(x.writes || y.writes))
          continue;
        Bytes first, second;
        for (int r = x.first[i]; r < x.first[i + 1]; ++r)
          first |= bytesOf(x.reaches[r]);
        for (int r = y.first[j]; r < y.first[j + 1]; ++r)
          second |= bytesOf(y.reaches[r]);
        if ((first & second).any())
          return true;
      }
    return false;
  };
  for (size_t b = 0; b < shape.members.size(); ++b)
    for (size_t a = 0; a < b; ++a)
      for (int j = 0; j < shape.members[b].itemCount; ++j)
        for (int i = 0; i < shape.members[a].itemCount; ++i)
          missing += !before[shape.members[b].firstItem + j]
                            [shape.members[a].firstItem + i] &&
                     (isAsked(a, b) ||
                      conflict(shape.members[a], i, shape.members[b], j));
  return missing;
}

TEST(SuperPlan, OrdersAllThatConflicts) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    auto made = randomShape(seed, 3 + static_cast<int>(seed % 12));
    findWaits(made->shape, made->plan);
    EXPECT_EQ(verifySuper(made->shape, made->plan), "") << "seed " << seed;
    EXPECT_EQ(unordered(made->shape, made->plan), 0) << "seed " << seed;
  }
}

/// Takes one wait or one signal away, as if planning had missed it: refused
/// exactly where all pairs say that it is needed.
TEST(SuperPlan, IsRefusedWithoutAnyWaitThatItNeeds) {
  int refused = 0, kept = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    auto made = randomShape(seed, 8);
    SuperPlan &plan = made->plan;
    findWaits(made->shape, plan);
    std::mt19937 random(seed);
    if (plan.waits.empty())
      continue;
    if (seed % 2) {
      std::vector<SuperItem *> waiting;
      for (SuperItem &item : plan.items)
        if (item.waits)
          waiting.push_back(&item);
      SuperItem &item = *waiting[random() % waiting.size()];
      if (random() % 2)
        ++item.firstWait;
      --item.waits;
    } else {
      std::vector<SuperItem *> signaling;
      for (SuperItem &item : plan.items)
        if (item.signals)
          signaling.push_back(&item);
      SuperItem &item = *signaling[random() % signaling.size()];
      int counter = plan.signals[item.firstSignal];
      ++item.firstSignal;
      --item.signals;
      --plan.counters[counter];
      for (SuperWait &wait : plan.waits)
        if (wait.counter == counter)
          --wait.signals;
    }
    bool holds = unordered(made->shape, plan) == 0;
    EXPECT_EQ(verifySuper(made->shape, plan).empty(), holds) << "seed " << seed;
    ++(holds ? kept : refused);
  }
  // What is not needed for itself is mostly left out.
  EXPECT_GT(refused, 5 * kept);
}

TEST(SuperPlan, IsRefusedWithTablesOutOfRange) {
  auto spoil = [](auto change) {
    auto made = randomShape(4, 8);
    findWaits(made->shape, made->plan);
    EXPECT_EQ(verifySuper(made->shape, made->plan), "");
    change(made->plan);
    EXPECT_NE(verifySuper(made->shape, made->plan), "");
  };
  spoil([](SuperPlan &p) { p.items.pop_back(); });
  spoil([](SuperPlan &p) { p.items.back().waits = 1 << 30; });
  spoil([](SuperPlan &p) { p.items.back().firstWait = -1; });
  spoil([](SuperPlan &p) { p.items.front().signals = 1 << 30; });
  spoil([](SuperPlan &p) { p.signals.front() = 1 << 20; });
  spoil([](SuperPlan &p) { p.signals.front() = -1; });
  spoil([](SuperPlan &p) { p.waits.front().counter = 1 << 20; });
  spoil([](SuperPlan &p) { --p.waits.front().signals; });
  spoil([](SuperPlan &p) { ++p.counters.front(); });
  spoil([](SuperPlan &p) {
    p.items.front().waits = 1;
    p.items.front().firstWait = static_cast<int>(p.waits.size()) - 1;
  });
}

//===----------------------------------------------------------------------===//
// How much is waited for
//===----------------------------------------------------------------------===//

TEST(SuperPlan, ARowWaitsForItsRowOnly) {
  Made made;
  for (int m = 0; m < 5; ++m) {
    made.member(8);
    if (m)
      made.touch(m - 1, false, [](int i) { return partOf(0, i, 8); });
    made.touch(m, true, [](int i) { return partOf(0, i, 8); });
  }
  findWaits(made.shape, made.plan);
  for (size_t i = 0; i < made.plan.items.size(); ++i) {
    const SuperItem &item = made.plan.items[i];
    EXPECT_EQ(item.waits, i < 8 ? 0 : 1);
    EXPECT_EQ(item.signals, i < 32 ? 1 : 0);
    if (item.waits)
      EXPECT_EQ(made.plan.waits[item.firstWait].signals, 1);
  }
}

TEST(SuperPlan, AnOrderThatIsAskedForIsKeptWithoutSharedBytes) {
  Made made;
  for (int m = 0; m < 3; ++m) {
    made.member(4);
    made.touch(m, true, [](int i) { return partOf(0, i, 4); });
  }
  findWaits(made.shape, made.plan);
  EXPECT_TRUE(made.plan.waits.empty());
  made.shape.orders = {{{0, 1}, {2}}};
  EXPECT_EQ(verifySuper(made.shape, made.plan),
            "item 0 of launch 2 does not wait for launch 0, as the program "
            "asks");
  findWaits(made.shape, made.plan);
  EXPECT_EQ(verifySuper(made.shape, made.plan), "");
  for (int i = 0; i < 12; ++i)
    EXPECT_EQ(made.plan.items[i].waits, i < 8 ? 0 : 2);
}

TEST(SuperPlan, OneWhoReadsAllWaitsForOneCounter) {
  Made made;
  for (int m = 0; m < 6; ++m) {
    made.member(8);
    if (m)
      made.touch((m - 1) % 2, false, [](int i) { return partOf(2, i, 8); });
    made.touch(m % 2, true, [](int i) { return partOf(1, i, 8); });
  }
  findWaits(made.shape, made.plan);
  EXPECT_EQ(verifySuper(made.shape, made.plan), "");
  EXPECT_EQ(std::count(made.plan.counters.begin(), made.plan.counters.end(), 8),
            5);
  // Writing again over what was read is implied by what is waited for.
  for (const SuperItem &item : made.plan.items)
    EXPECT_LE(item.waits, 1);
}

TEST(SuperPlan, RowsAndColumnsOfATileAreCountedApart) {
  Made made;
  made.member(64);
  made.touch(0, true, [](int i) {
    return std::vector<Reach>{{int64_t(i / 8) * pitch + i % 8 * 8, 8, 0, 1}};
  });
  made.member(8);
  made.touch(0, false, [](int i) { return partOf(0, i, 8); });
  made.touch(1, true, [](int i) { return partOf(0, i, 8); });
  made.member(8);
  made.touch(0, false, [](int i) { return partOf(1, i, 8); });
  made.touch(2, true, [](int i) { return partOf(0, i, 8); });
  findWaits(made.shape, made.plan);
  EXPECT_EQ(verifySuper(made.shape, made.plan), "");
  for (size_t i = 64; i < 80; ++i) {
    EXPECT_EQ(made.plan.items[i].waits, 1);
    EXPECT_EQ(made.plan.waits[made.plan.items[i].firstWait].signals, 8);
  }
}

//===----------------------------------------------------------------------===//
// Lists
//===----------------------------------------------------------------------===//

TEST(SuperQueues, AreInOneOrderThatKeepsEveryWait) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    auto made = randomShape(seed, 12);
    std::mt19937 random(seed);
    for (double &time : made->plan.times)
      time = static_cast<double>(random() % 5000);
    // Those of some launches read much of some weights.
    for (SuperFetch &fetch : made->plan.fetches)
      if (random() % 3)
        fetch = {0, {int64_t(random() % 9) << 17, 1 << 17, 0, 1}};
    findWaits(made->shape, made->plan);
    size_t count = made->plan.items.size();
    auto before = orderOf(made->plan);
    for (int workers : {1, 2, 3, 7, 64, 1000}) {
      const SuperQueues &queues = made->plan.queuesFor(workers);
      EXPECT_EQ(&queues, &made->plan.queuesFor(workers));
      ASSERT_EQ(queues.workers(), std::min(workers, 64));
      ASSERT_EQ(queues.order.size(), count);
      std::vector<size_t> place(count, count);
      for (size_t p = 0; p < count; ++p)
        place[queues.order[p]] = p;
      for (size_t i = 0; i < count; ++i) {
        ASSERT_LT(place[i], count);
        for (size_t j = 0; j < i; ++j)
          if (before[i][j])
            ASSERT_LT(place[j], place[i]);
      }
      std::vector<int> all = queues.items;
      for (int w = 0; w < queues.workers(); ++w)
        for (int p = queues.first[w] + 1; p < queues.first[w + 1]; ++p)
          ASSERT_LT(place[all[p - 1]], place[all[p]]);
      std::sort(all.begin(), all.end());
      for (size_t i = 0; i < count; ++i)
        ASSERT_EQ(all[i], static_cast<int>(i));
    }
  }
}

TEST(SuperQueues, KeepRowsWithTheWorkerThatMadeThem) {
  Made made;
  for (int m = 0; m < 6; ++m) {
    made.member(8);
    if (m)
      made.touch(m - 1, false, [](int i) { return partOf(0, i, 8); });
    made.touch(m, true, [](int i) { return partOf(0, i, 8); });
  }
  findWaits(made.shape, made.plan);
  const SuperQueues &queues = made.plan.queuesFor(2);
  EXPECT_LT(queues.time, 0.6 * made.plan.serialTime);
  for (int w = 0; w < 2; ++w)
    for (int p = queues.first[w]; p < queues.first[w + 1]; ++p) {
      // Row by row, each through all launches before the next begins.
      int item = queues.items[p], at = p - queues.first[w];
      EXPECT_EQ(item % 8, w * 4 + at / 6);
      EXPECT_EQ(item / 8, at % 6);
    }
}

/// A step of a decoder: products of all rows with all columns, one after the
/// other, and parts that go by heads.
std::unique_ptr<Made> decoder(int layers) {
  auto made = std::make_unique<Made>();
  for (int m = 0; m < layers * 16; ++m) {
    made->member(30);
    made->touch(m % 5, false,
                [&](int i) { return partOf(m % 4 == 3 ? 0 : 2, i, 30); });
    made->touch((m + 1) % 5, true, [](int i) { return partOf(0, i, 30); });
  }
  return made;
}

/// Of this thread, whatever else the machine does.
double milliseconds() {
  timespec now;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 +
         static_cast<double>(now.tv_nsec) / 1e6;
}

TEST(SuperPlan, TakesTimeInProportionToTheItems) {
  auto timeOf = [](int layers) {
    auto made = decoder(layers);
    double begin = milliseconds();
    findWaits(made->shape, made->plan);
    double planned = milliseconds();
    EXPECT_EQ(verifySuper(made->shape, made->plan), "");
    double proven = milliseconds();
    made->plan.queuesFor(2);
    double filled = milliseconds();
    std::printf("%zu items: waits %.1f ms, proof %.1f ms, lists %.1f ms\n",
                made->plan.items.size(), planned - begin, proven - planned,
                filled - proven);
    return filled - begin;
  };
  double small = 1e9, large = 1e9;
  for (int round = 0; round < 3; ++round) {
    small = std::min(small, timeOf(6));
    large = std::min(large, timeOf(24));
  }
  EXPECT_LT(large, 12 * small);
}

} // namespace
} // namespace anabranch::runtime
