//===- TaskDependencesTest.cpp - graphs and queues, against all pairs -----===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/superkernel/TaskDependences.h"

#include "runtime/superkernel/ScheduledTasks.h"
#include "runtime/superkernel/VerifyTaskGraph.h"
#include "support/runtime/TestSupport.h"

#include <algorithm>
#include <bitset>
#include <ctime>
#include <gtest/gtest.h>
#include <random>

namespace anabranch::runtime {

namespace {

constexpr int memoryBytes = 512, pitch = 64;
using Bytes = std::bitset<memoryBytes>;

Bytes bitsOf(const StridedRegion &r) {
  Bytes bytes;
  for (int64_t i = 0; i < r.count; ++i)
    for (int64_t b = 0; b < r.width; ++b)
      bytes.set(static_cast<size_t>(r.begin + i * r.pitch + b));
  return bytes;
}

/// Accesses of tasks, and a graph without dependences.
struct Made {
  TaskAccesses accesses;
  TaskGraph graph;

  void member(int tasks) {
    accesses.launches.push_back({accesses.taskCount(), tasks, {}});
    for (int i = 0; i < tasks; ++i) {
      Task task;
      task.launch = static_cast<int>(accesses.launches.size()) - 1;
      task.tile = i;
      task.tiles = 1;
      graph.tasks.push_back(task);
      graph.times.push_back(1000);
      graph.bytes.push_back(64);
      graph.reads.push_back(64);
      graph.constants.emplace_back();
      graph.serialTime += 1000;
    }
  }
  /// Task i of the last member touches regions(i).
  template <typename Regions>
  void touch(int memory, bool writes, Regions regions) {
    TaskAccesses::Launch &m = accesses.launches.back();
    m.operands.emplace_back();
    OperandFootprint &group = m.operands.back();
    group.memory = memory;
    group.writes = writes;
    group.first = {0};
    for (int i = 0; i < m.taskCount; ++i) {
      for (const StridedRegion &region : regions(i))
        group.add(region);
      group.first.push_back(static_cast<int>(group.regions.size()));
    }
  }
};

/// Part `i` of `parts` of an 8 x 64 block of bytes. By `kind` it is rows,
/// columns, the whole block, rows that overlap the next part's, or a few
/// scattered rows.
std::vector<StridedRegion> partOf(int kind, int i, int parts) {
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

std::unique_ptr<Made> randomShape(unsigned seed, int launches) {
  auto made = std::make_unique<Made>();
  std::mt19937 random(seed);
  auto below = [&](int end) { return static_cast<int>(random() % end); };
  for (int m = 0; m < launches; ++m) {
    static const int counts[] = {1, 2, 4, 8, 16, 0, 5};
    int tasks = counts[below(7)];
    made->member(tasks);
    for (int reads = below(3); reads > 0; --reads)
      made->touch(below(4), false, [&, kind = below(5)](int i) {
        return partOf(kind, i, tasks);
      });
    made->touch(below(4), true,
                [&, kind = below(2)](int i) { return partOf(kind, i, tasks); });
  }
  // Adds some orders: launches before a random point come before launches
  // after it.
  for (int orders = below(3); orders > 0; --orders) {
    int cut = 1 + below(launches - 1);
    LaunchOrder order;
    for (int m = 0; m < launches; ++m)
      if (below(3) == 0)
        (m < cut ? order.before : order.after).push_back(m);
    if (!order.before.empty() && !order.after.empty())
      made->accesses.orders.push_back(order);
  }
  return made;
}

/// before[b] has all tasks a that the counters order before b, computed pair by
/// pair.
std::vector<std::vector<bool>> orderOf(const TaskGraph &graph) {
  size_t count = graph.tasks.size();
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count));
  for (size_t i = 0; i < count; ++i)
    for (int w = 0; w < graph.tasks[i].dependences; ++w) {
      int counter =
          graph.dependences[graph.tasks[i].firstDependence + w].counter;
      for (size_t j = 0; j < i; ++j)
        for (int s = 0; s < graph.tasks[j].signals; ++s)
          if (graph.signals[graph.tasks[j].firstSignal + s] == counter) {
            before[i][j] = true;
            for (size_t k = 0; k < j; ++k)
              before[i][k] = before[i][k] || before[j][k];
          }
    }
  return before;
}

/// The number of pairs of tasks that conflict, or that the program orders, but
/// the counters do not.
int unordered(const TaskAccesses &accesses, const TaskGraph &graph) {
  std::vector<std::vector<bool>> before = orderOf(graph);
  int missing = 0;
  auto has = [](const std::vector<int> &list, size_t member) {
    return std::count(list.begin(), list.end(), static_cast<int>(member)) > 0;
  };
  auto isAsked = [&](size_t a, size_t b) {
    for (const LaunchOrder &order : accesses.orders)
      if (has(order.before, a) && has(order.after, b))
        return true;
    return false;
  };
  auto conflict = [&](const TaskAccesses::Launch &a, int i,
                      const TaskAccesses::Launch &b, int j) {
    for (const OperandFootprint &x : a.operands)
      for (const OperandFootprint &y : b.operands) {
        if (x.memory != y.memory || !(x.writes || y.writes))
          continue;
        Bytes first, second;
        for (int r = x.first[i]; r < x.first[i + 1]; ++r)
          first |= bitsOf(x.regions[r]);
        for (int r = y.first[j]; r < y.first[j + 1]; ++r)
          second |= bitsOf(y.regions[r]);
        if ((first & second).any())
          return true;
      }
    return false;
  };
  for (size_t b = 0; b < accesses.launches.size(); ++b)
    for (size_t a = 0; a < b; ++a)
      for (int j = 0; j < accesses.launches[b].taskCount; ++j)
        for (int i = 0; i < accesses.launches[a].taskCount; ++i)
          missing += !before[accesses.launches[b].firstTask + j]
                            [accesses.launches[a].firstTask + i] &&
                     (isAsked(a, b) || conflict(accesses.launches[a], i,
                                                accesses.launches[b], j));
  return missing;
}

TEST(TaskDependences, OrdersAllThatConflicts) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    auto made = randomShape(seed, 3 + static_cast<int>(seed % 12));
    findDependences(made->accesses, made->graph);
    EXPECT_EQ(verifyTaskGraph(made->accesses, made->graph), "")
        << "seed " << seed;
    EXPECT_EQ(unordered(made->accesses, made->graph), 0) << "seed " << seed;
  }
}

/// Removes one wait or one signal, as if the search had missed it. The verifier
/// must refuse the graph exactly if some pair needs it.
TEST(TaskDependences, IsRefusedWithoutAnyWaitThatItNeeds) {
  int refused = 0, kept = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    auto made = randomShape(seed, 8);
    TaskGraph &graph = made->graph;
    findDependences(made->accesses, graph);
    std::mt19937 random(seed);
    if (graph.dependences.empty())
      continue;
    if (seed % 2) {
      std::vector<Task *> waiting;
      for (Task &task : graph.tasks)
        if (task.dependences)
          waiting.push_back(&task);
      Task &task = *waiting[random() % waiting.size()];
      if (random() % 2)
        ++task.firstDependence;
      --task.dependences;
    } else {
      std::vector<Task *> signaling;
      for (Task &task : graph.tasks)
        if (task.signals)
          signaling.push_back(&task);
      Task &task = *signaling[random() % signaling.size()];
      int counter = graph.signals[task.firstSignal];
      ++task.firstSignal;
      --task.signals;
      --graph.counters[counter];
      for (Dependence &wait : graph.dependences)
        if (wait.counter == counter)
          --wait.signals;
    }
    bool holds = unordered(made->accesses, graph) == 0;
    EXPECT_EQ(verifyTaskGraph(made->accesses, graph).empty(), holds)
        << "seed " << seed;
    ++(holds ? kept : refused);
  }
  // The search leaves out most dependences that others imply.
  EXPECT_GT(refused, 5 * kept);
}

TEST(TaskDependences, IsRefusedWithTablesOutOfRange) {
  auto spoil = [](auto change) {
    auto made = randomShape(4, 8);
    findDependences(made->accesses, made->graph);
    EXPECT_EQ(verifyTaskGraph(made->accesses, made->graph), "");
    change(made->graph);
    EXPECT_NE(verifyTaskGraph(made->accesses, made->graph), "");
  };
  spoil([](TaskGraph &p) { p.tasks.pop_back(); });
  spoil([](TaskGraph &p) { p.tasks.back().dependences = 1 << 30; });
  spoil([](TaskGraph &p) { p.tasks.back().firstDependence = -1; });
  spoil([](TaskGraph &p) { p.tasks.front().signals = 1 << 30; });
  spoil([](TaskGraph &p) { p.signals.front() = 1 << 20; });
  spoil([](TaskGraph &p) { p.signals.front() = -1; });
  spoil([](TaskGraph &p) { p.dependences.front().counter = 1 << 20; });
  spoil([](TaskGraph &p) { --p.dependences.front().signals; });
  spoil([](TaskGraph &p) { ++p.counters.front(); });
  spoil([](TaskGraph &p) {
    p.tasks.front().dependences = 1;
    p.tasks.front().firstDependence =
        static_cast<int>(p.dependences.size()) - 1;
  });
}

//===----------------------------------------------------------------------===//
// How much is waited for
//===----------------------------------------------------------------------===//

/// The graph of launches of eight rows. Each row depends on the same row of the
/// launch before.
std::unique_ptr<Made> rowByRow(int launches) {
  auto made = std::make_unique<Made>();
  for (int m = 0; m < launches; ++m) {
    made->member(8);
    if (m)
      made->touch(m - 1, false, [](int i) { return partOf(0, i, 8); });
    made->touch(m, true, [](int i) { return partOf(0, i, 8); });
  }
  findDependences(made->accesses, made->graph);
  return made;
}

TEST(TaskDependences, ARowWaitsForItsRowOnly) {
  std::unique_ptr<Made> made = rowByRow(5);
  for (size_t i = 0; i < made->graph.tasks.size(); ++i) {
    const Task &task = made->graph.tasks[i];
    EXPECT_EQ(task.dependences, i < 8 ? 0 : 1);
    EXPECT_EQ(task.signals, i < 32 ? 1 : 0);
    if (task.dependences)
      EXPECT_EQ(made->graph.dependences[task.firstDependence].signals, 1);
  }
}

TEST(TaskDependences, AnOrderThatIsAskedForIsKeptWithoutSharedBytes) {
  Made made;
  for (int m = 0; m < 3; ++m) {
    made.member(4);
    made.touch(m, true, [](int i) { return partOf(0, i, 4); });
  }
  findDependences(made.accesses, made.graph);
  EXPECT_TRUE(made.graph.dependences.empty());
  made.accesses.orders = {{{0, 1}, {2}}};
  EXPECT_EQ(verifyTaskGraph(made.accesses, made.graph),
            "task 0 of launch 2 does not wait for launch 0, as the program "
            "asks");
  findDependences(made.accesses, made.graph);
  EXPECT_EQ(verifyTaskGraph(made.accesses, made.graph), "");
  for (int i = 0; i < 12; ++i)
    EXPECT_EQ(made.graph.tasks[i].dependences, i < 8 ? 0 : 2);
}

TEST(TaskDependences, OneWhoReadsAllWaitsForOneCounter) {
  Made made;
  for (int m = 0; m < 6; ++m) {
    made.member(8);
    if (m)
      made.touch((m - 1) % 2, false, [](int i) { return partOf(2, i, 8); });
    made.touch(m % 2, true, [](int i) { return partOf(1, i, 8); });
  }
  findDependences(made.accesses, made.graph);
  EXPECT_EQ(verifyTaskGraph(made.accesses, made.graph), "");
  EXPECT_EQ(
      std::count(made.graph.counters.begin(), made.graph.counters.end(), 8), 5);
  // A task that overwrites bytes is ordered after their readers by the
  // dependences that it already has.
  for (const Task &task : made.graph.tasks)
    EXPECT_LE(task.dependences, 1);
}

TEST(TaskDependences, RowsAndColumnsOfATileAreCountedApart) {
  Made made;
  made.member(64);
  made.touch(0, true, [](int i) {
    return std::vector<StridedRegion>{
        {int64_t(i / 8) * pitch + i % 8 * 8, 8, 0, 1}};
  });
  made.member(8);
  made.touch(0, false, [](int i) { return partOf(0, i, 8); });
  made.touch(1, true, [](int i) { return partOf(0, i, 8); });
  made.member(8);
  made.touch(0, false, [](int i) { return partOf(1, i, 8); });
  made.touch(2, true, [](int i) { return partOf(0, i, 8); });
  findDependences(made.accesses, made.graph);
  EXPECT_EQ(verifyTaskGraph(made.accesses, made.graph), "");
  for (size_t i = 64; i < 80; ++i) {
    EXPECT_EQ(made.graph.tasks[i].dependences, 1);
    EXPECT_EQ(
        made.graph.dependences[made.graph.tasks[i].firstDependence].signals, 8);
  }
}

//===----------------------------------------------------------------------===//
// Queues
//===----------------------------------------------------------------------===//

TEST(WorkerSchedule, AreInOneOrderThatKeepsEveryWait) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    auto made = randomShape(seed, 12);
    std::mt19937 random(seed);
    for (double &time : made->graph.times)
      time = static_cast<double>(random() % 5000);
    // Some launches read many bytes of a few weights.
    for (ConstantRead &fetch : made->graph.constants)
      if (random() % 3)
        fetch = {0, {int64_t(random() % 9) << 17, 1 << 17, 0, 1}};
    findDependences(made->accesses, made->graph);
    size_t count = made->graph.tasks.size();
    auto before = orderOf(made->graph);
    ScheduledTasks tasks(made->graph);
    for (int workers : {1, 2, 3, 7, 64, 1000}) {
      const WorkerSchedule &schedule = tasks.scheduleFor(workers);
      EXPECT_EQ(&schedule, &tasks.scheduleFor(workers));
      ASSERT_EQ(schedule.workers(), std::min(workers, 64));
      ASSERT_EQ(schedule.order.size(), count);
      std::vector<size_t> place(count, count);
      for (size_t p = 0; p < count; ++p)
        place[schedule.order[p]] = p;
      for (size_t i = 0; i < count; ++i) {
        ASSERT_LT(place[i], count);
        for (size_t j = 0; j < i; ++j)
          if (before[i][j])
            ASSERT_LT(place[j], place[i]);
      }
      std::vector<int> all = schedule.tasks;
      for (int w = 0; w < schedule.workers(); ++w)
        for (int p = schedule.first[w] + 1; p < schedule.first[w + 1]; ++p)
          ASSERT_LT(place[all[p - 1]], place[all[p]]);
      std::sort(all.begin(), all.end());
      for (size_t i = 0; i < count; ++i)
        ASSERT_EQ(all[i], static_cast<int>(i));
    }
  }
}

TEST(WorkerSchedule, KeepRowsWithTheWorkerThatMadeThem) {
  std::unique_ptr<Made> made = rowByRow(6);
  WorkerSchedule schedule = scheduleTasks(made->graph, 2);
  EXPECT_LT(schedule.time, 0.6 * made->graph.serialTime);
  for (int w = 0; w < 2; ++w)
    for (int p = schedule.first[w]; p < schedule.first[w + 1]; ++p) {
      // Each row goes through all launches before the next row begins.
      int task = schedule.tasks[p], at = p - schedule.first[w];
      EXPECT_EQ(task % 8, w * 4 + at / 6);
      EXPECT_EQ(task / 8, at % 6);
    }
}

/// A decoder step: products of all rows with all columns, one after the other,
/// and parts that are split by heads.
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

/// CPU time of this thread, whatever else the machine does.
double milliseconds() {
  timespec now;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 +
         static_cast<double>(now.tv_nsec) / 1e6;
}

TEST(TaskDependences, TakesTimeInProportionToTheItems) {
  if (anabranch::testing::underThreadSanitizer)
    GTEST_SKIP() << "its shadow memory exceeds small caches";
  auto timeOf = [](int layers) {
    auto made = decoder(layers);
    double begin = milliseconds();
    findDependences(made->accesses, made->graph);
    double planned = milliseconds();
    EXPECT_EQ(verifyTaskGraph(made->accesses, made->graph), "");
    double proven = milliseconds();
    scheduleTasks(made->graph, 2);
    double filled = milliseconds();
    std::printf("%zu tasks: waits %.1f ms, proof %.1f ms, lists %.1f ms\n",
                made->graph.tasks.size(), planned - begin, proven - planned,
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
