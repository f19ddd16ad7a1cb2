//===- WorkerSchedule.cpp - which worker runs which task, and when --------===//
// SPDX-License-Identifier: Apache-2.0
//
// The scheduler simulates the super kernel with estimated times. Each worker
// has a set of ready tasks. A task that becomes ready goes to its home: the
// worker that made most of the bytes it reads. If no single worker made them,
// the home is the worker with the same share of each launch, so that a worker
// sees the same weights in each call. A free worker takes a task of the latest
// launch of its set, whose operands are still in its cache. If the set is
// empty, it takes a task of the set that lasts longest, unless moving the data
// takes longer than waiting.
//
// If the weights of all launches do not fit into one core's cache, tasks that
// read more weights than other bytes are placed by their weights: the workers
// share a launch's weights rather than its rows, and each part is read for all
// rows before the next part.

#include "runtime/superkernel/WorkerSchedule.h"

#include "machine/limits/MachineRates.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>

namespace anabranch::runtime {

namespace {

using machine::UsualCore;

/// Nanoseconds that the runtime needs for a task, beside its kernel.
constexpr double claimTime = 50;
/// Bytes of weights that stay in one core's own cache from call to call. The
/// other half holds what the tasks compute.
constexpr double cacheBytes = UsualCore::l2Bytes / 2;

/// Nanoseconds to move bytes from one worker's cache to another's.
double moveTime(double bytes) {
  return UsualCore::moveNanoseconds + bytes / UsualCore::moveGBs;
}

class Scheduler {
public:
  Scheduler(const TaskGraph &graph, int workers)
      : graph(graph), workers(workers), left(graph.counters),
        missing(graph.tasks.size()), makers(graph.counters.size()),
        waiters(graph.counters.size()), rank(graph.tasks.size(), 0),
        readySets(workers), backlog(workers, 0), freeAt(workers, 0),
        queues(workers) {}

  WorkerSchedule run();

private:
  struct Ready {
    bool heavy;
    int place, panel, task;
    bool operator<(const Ready &o) const {
      return std::tie(heavy, place, panel, task) <
             std::tie(o.heavy, o.place, o.panel, o.task);
    }
  };
  /// The worker that ran all tasks of a counter; -1 if several did.
  struct Maker {
    int worker = -1;
    double bytes = 0;
  };
  struct End {
    double time;
    int task, worker;
    bool operator<(const End &o) const {
      return time != o.time ? time > o.time : task > o.task;
    }
  };

  void prepare();
  void findPanels();
  /// The order of a set. Tasks of later launches come first, since their
  /// operands are still in the cache. Heavy tasks go by weights, so that all
  /// rows are through before the next weights are read.
  Ready readyOf(int task) const {
    int launch = graph.tasks[task].launch;
    bool heavy = isHeavy(task);
    return {heavy, heavy ? launch : -launch, panels[task].number, task};
  }
  /// Whether the task reads more weights than other bytes, and the weights are
  /// in no cache.
  bool isHeavy(int task) const {
    const ConstantRead &fetch = graph.constants[task];
    return weightsDecide && fetch.operand >= 0 &&
           static_cast<double>(fetch.region.bytes()) > graph.reads[task];
  }
  void makeReady(int task);
  int homeOf(int task) const;
  void assign(double now);
  int choose(int worker, double now);
  void start(int task, int worker, double now);
  void finish(const End &end);
  double timeOf(int task) const { return graph.times[task] + claimTime; }

  const TaskGraph &graph;
  const int workers;
  std::vector<int> left;     ///< by counter: signals still to come
  std::vector<int> missing;  ///< by task: counters that it waits for
  std::vector<Maker> makers; ///< by counter
  std::vector<std::vector<int>> waiters; ///< by counter: tasks
  std::vector<double> rank; ///< by task: the longest path to the end
  std::vector<std::set<Ready>> readySets;  ///< by worker
  std::set<std::pair<double, int>> urgent; ///< all ready tasks, by -rank
  std::vector<int> homes;                  ///< by ready task: its worker
  std::vector<double> backlog, freeAt;     ///< by worker
  std::vector<std::vector<int>> queues;
  std::vector<int> order;
  std::priority_queue<End> running;
  double remaining = 0; ///< time of all tasks that have not started
  std::vector<std::pair<int, int>> launchTasks; ///< by task: first, count
  /// By task: which part of the launch's weights it reads, and how many parts
  /// there are.
  struct Panel {
    int number = 0, count = 1;
  };
  std::vector<Panel> panels;
  bool weightsDecide = false; ///< the weights do not fit into one core's cache
};

/// Numbers the panels of weights. Tasks of a launch that read the same weights
/// get the same number.
void Scheduler::findPanels() {
  auto count = static_cast<int>(graph.tasks.size());
  panels.resize(count);
  double weights = 0;
  for (int first = 0; first < count; first += launchTasks[first].second) {
    std::map<std::pair<int, int64_t>, int> known; // by operand and begin
    int end = first + launchTasks[first].second;
    for (int i = first; i < end; ++i) {
      const ConstantRead &fetch = graph.constants[i];
      auto [panel, isNew] =
          known.try_emplace({fetch.operand, fetch.region.begin}, known.size());
      panels[i].number = panel->second;
      weights += isNew && fetch.operand >= 0
                     ? static_cast<double>(fetch.region.bytes())
                     : 0;
    }
    for (int i = first; i < end; ++i)
      panels[i].count = static_cast<int>(known.size());
  }
  weightsDecide = weights > cacheBytes;
}

void Scheduler::prepare() {
  auto count = static_cast<int>(graph.tasks.size());
  homes.assign(count, -1);
  launchTasks.resize(count);
  for (int i = 0, first = 0; i < count; ++i) {
    const Task &task = graph.tasks[i];
    missing[i] = task.dependences;
    for (int w = 0; w < task.dependences; ++w)
      waiters[graph.dependences[task.firstDependence + w].counter].push_back(i);
    remaining += timeOf(i);
    if (task.launch != graph.tasks[first].launch)
      first = i;
    launchTasks[i] = {first, 0};
    ++launchTasks[first].second;
  }
  for (int i = 0; i < count; ++i)
    launchTasks[i].second = launchTasks[launchTasks[i].first].second;
  findPanels();
  // Each task comes after those that it waits for, so the loop runs backwards.
  std::vector<double> longest(graph.counters.size(), 0);
  for (int i = count; i-- > 0;) {
    const Task &task = graph.tasks[i];
    for (int s = 0; s < task.signals; ++s)
      rank[i] = std::max(rank[i], longest[graph.signals[task.firstSignal + s]]);
    rank[i] += timeOf(i);
    for (int w = 0; w < task.dependences; ++w) {
      double &after =
          longest[graph.dependences[task.firstDependence + w].counter];
      after = std::max(after, rank[i]);
    }
  }
}

/// The worker to whose set a ready task belongs: by its weights, else the
/// worker that made most of its bytes, else by its share of the launch.
int Scheduler::homeOf(int task) const {
  const Task &i = graph.tasks[task];
  auto [panel, panelCount] = panels[task];
  if (isHeavy(task) && panelCount >= workers)
    return static_cast<int>(int64_t(panel) * workers / panelCount);
  int worker = -1;
  double best = 0;
  for (int w = 0; w < i.dependences; ++w) {
    const Maker &maker =
        makers[graph.dependences[i.firstDependence + w].counter];
    if (maker.worker >= 0 && maker.bytes > best) {
      best = maker.bytes;
      worker = maker.worker;
    }
  }
  auto [first, count] = launchTasks[task];
  return worker >= 0
             ? worker
             : static_cast<int>(int64_t(task - first) * workers / count);
}

void Scheduler::makeReady(int task) {
  int home = homeOf(task);
  homes[task] = home;
  readySets[home].insert(readyOf(task));
  backlog[home] += timeOf(task);
  urgent.insert({-rank[task], task});
}

/// The task that a free worker takes; -1 if waiting is better.
int Scheduler::choose(int worker, double now) {
  if (urgent.empty())
    return -1;
  int own = readySets[worker].empty() ? -1 : readySets[worker].begin()->task;
  // If the longest path to the end takes longer than the remaining work, the
  // task at its start comes first.
  double longestWay = -urgent.begin()->first;
  if (longestWay > remaining / workers && (own < 0 || rank[own] < longestWay))
    return urgent.begin()->second;
  if (own >= 0)
    return own;
  int victim = -1;
  double longest = 0;
  for (int w = 0; w < workers; ++w) {
    double until = std::max(freeAt[w] - now, 0.0) + backlog[w];
    if (!readySets[w].empty() && until > longest) {
      longest = until;
      victim = w;
    }
  }
  if (victim < 0)
    return -1;
  int task = readySets[victim].rbegin()->task;
  double saved = longest - timeOf(task);
  return saved >= moveTime(graph.bytes[task]) ? task : -1;
}

void Scheduler::start(int task, int worker, double now) {
  int home = homes[task];
  readySets[home].erase(readyOf(task));
  backlog[home] -= timeOf(task);
  urgent.erase({-rank[task], task});
  remaining -= timeOf(task);
  queues[worker].push_back(task);
  order.push_back(task);
  freeAt[worker] = now + timeOf(task);
  running.push({freeAt[worker], task, worker});
}

/// Gives a task to every worker that is free now, if there is one for it.
void Scheduler::assign(double now) {
  for (int worker = 0; worker < workers; ++worker)
    if (freeAt[worker] <= now)
      if (int task = choose(worker, now); task >= 0)
        start(task, worker, now);
}

void Scheduler::finish(const End &end) {
  const Task &task = graph.tasks[end.task];
  for (int s = 0; s < task.signals; ++s) {
    int counter = graph.signals[task.firstSignal + s];
    Maker &maker = makers[counter];
    bool isFirst = left[counter] == graph.counters[counter];
    maker.worker = isFirst || maker.worker == end.worker ? end.worker : -1;
    maker.bytes += graph.bytes[end.task];
    if (--left[counter] > 0)
      continue;
    for (int waiter : waiters[counter])
      if (--missing[waiter] == 0)
        makeReady(waiter);
  }
}

WorkerSchedule Scheduler::run() {
  prepare();
  for (size_t i = 0; i < graph.tasks.size(); ++i)
    if (missing[i] == 0)
      makeReady(static_cast<int>(i));
  double now = 0;
  assign(now);
  while (!running.empty()) {
    now = running.top().time;
    while (!running.empty() && running.top().time <= now) {
      End end = running.top();
      running.pop();
      finish(end);
    }
    assign(now);
  }
  WorkerSchedule schedule;
  schedule.time = now;
  schedule.order = std::move(order);
  for (const std::vector<int> &list : queues) {
    schedule.first.push_back(static_cast<int>(schedule.tasks.size()));
    schedule.tasks.insert(schedule.tasks.end(), list.begin(), list.end());
  }
  schedule.first.push_back(static_cast<int>(schedule.tasks.size()));
  return schedule;
}

} // namespace

WorkerSchedule scheduleTasks(const TaskGraph &graph, int workers) {
  return Scheduler(graph, workers).run();
}

} // namespace anabranch::runtime
