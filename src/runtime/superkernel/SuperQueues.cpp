//===- SuperQueues.cpp - which worker runs which item, and when -----------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Plays the super kernel with estimated times. An item that becomes ready goes
// to the pool of the worker that made most of what it reads; where several
// made it, or nobody, to that of the worker with the same part of each launch,
// so that from call to call a worker sees the same weights. A free worker takes
// the latest launch's item of its pool: what its cache still has. If it has
// none it takes one of the pool that lasts longest, unless moving the data
// takes longer than waiting.
//
// Where the weights of all launches don't fit into one core's cache, an item
// that reads more of them than else goes by these: a launch's weights are
// shared out among the workers, rather than its rows, and each part is read for
// all rows before the next.
//
//===----------------------------------------------------------------------===//

#include "runtime/superkernel/SuperQueues.h"

#include "runtime/superkernel/SuperPlan.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>

namespace anabranch::runtime {

namespace {

/// What the runtime needs for an item beside its kernel, in nanoseconds.
constexpr double claimTime = 50;
/// From one worker's cache to another's: a line's latency, then so many bytes
/// a nanosecond.
constexpr double moveTime = 200, moveRate = 10;
/// Weights that stay in one core's own cache from call to call.
constexpr double cacheBytes = 512 << 10;

class Scheduler {
public:
  Scheduler(const SuperPlan &plan, int workers)
      : plan(plan), workers(workers), left(plan.counters),
        missing(plan.items.size()), makers(plan.counters.size()),
        waiters(plan.counters.size()), rank(plan.items.size(), 0),
        pools(workers), backlog(workers, 0), freeAt(workers, 0),
        lists(workers) {}

  SuperQueues run();

private:
  struct Ready {
    bool heavy;
    int place, panel, item;
    bool operator<(const Ready &o) const {
      return std::tie(heavy, place, panel, item) <
             std::tie(o.heavy, o.place, o.panel, o.item);
    }
  };
  /// Who made what a counter stands for: -1 for several.
  struct Maker {
    int worker = -1;
    double bytes = 0;
  };
  struct End {
    double time;
    int item, worker;
    bool operator<(const End &o) const {
      return time != o.time ? time > o.time : item > o.item;
    }
  };

  void prepare();
  void findPanels();
  /// What a cache still has comes first: items of later launches. Then weights
  /// in turn, so that all rows are through before the next ones are read.
  Ready readyOf(int item) const {
    int launch = plan.items[item].launch;
    bool heavy = isHeavy(item);
    return {heavy, heavy ? launch : -launch, panels[item].number, item};
  }
  /// Whether it reads more weights than else, and finds none in a cache.
  bool isHeavy(int item) const {
    const SuperFetch &fetch = plan.fetches[item];
    return weightsDecide && fetch.operand >= 0 &&
           static_cast<double>(fetch.reach.bytes()) > plan.reads[item];
  }
  void makeReady(int item);
  int homeOf(int item) const;
  void assign(double now);
  int choose(int worker, double now);
  void start(int item, int worker, double now);
  void finish(const End &end);
  double timeOf(int item) const { return plan.times[item] + claimTime; }

  const SuperPlan &plan;
  const int workers;
  std::vector<int> left;     ///< by counter: signals still to come
  std::vector<int> missing;  ///< by item: counters that it waits for
  std::vector<Maker> makers; ///< by counter
  std::vector<std::vector<int>> waiters; ///< by counter: items
  std::vector<double> rank; ///< by item: the longest way to the end
  std::vector<std::set<Ready>> pools;
  std::set<std::pair<double, int>> urgent; ///< ready items by -rank
  std::vector<int> poolOf;
  std::vector<double> backlog, freeAt; ///< by worker
  std::vector<std::vector<int>> lists;
  std::vector<int> order;
  std::priority_queue<End> running;
  double remaining = 0; ///< time of all items that have not started
  std::vector<std::pair<int, int>> launchItems; ///< by item: first, count
  /// By item: which of the launch's parts of the weights it reads, and how many
  /// there are.
  struct Panel {
    int number = 0, count = 1;
  };
  std::vector<Panel> panels;
  bool weightsDecide = false; ///< they don't fit into one core's cache
};

/// Items of a launch that read the same weights have the same number.
void Scheduler::findPanels() {
  auto count = static_cast<int>(plan.items.size());
  panels.resize(count);
  double weights = 0;
  for (int first = 0; first < count; first += launchItems[first].second) {
    std::map<std::pair<int, int64_t>, int> known; // by what they fetch
    int end = first + launchItems[first].second;
    for (int i = first; i < end; ++i) {
      const SuperFetch &fetch = plan.fetches[i];
      auto [panel, isNew] =
          known.try_emplace({fetch.operand, fetch.reach.begin}, known.size());
      panels[i].number = panel->second;
      weights += isNew && fetch.operand >= 0
                     ? static_cast<double>(fetch.reach.bytes())
                     : 0;
    }
    for (int i = first; i < end; ++i)
      panels[i].count = static_cast<int>(known.size());
  }
  weightsDecide = weights > cacheBytes;
}

void Scheduler::prepare() {
  auto count = static_cast<int>(plan.items.size());
  poolOf.assign(count, -1);
  launchItems.resize(count);
  for (int i = 0, first = 0; i < count; ++i) {
    const SuperItem &item = plan.items[i];
    missing[i] = item.waits;
    for (int w = 0; w < item.waits; ++w)
      waiters[plan.waits[item.firstWait + w].counter].push_back(i);
    remaining += timeOf(i);
    if (item.launch != plan.items[first].launch)
      first = i;
    launchItems[i] = {first, 0};
    ++launchItems[first].second;
  }
  for (int i = 0; i < count; ++i)
    launchItems[i].second = launchItems[launchItems[i].first].second;
  findPanels();
  // Items come after all that they wait for.
  std::vector<double> longest(plan.counters.size(), 0);
  for (int i = count; i-- > 0;) {
    const SuperItem &item = plan.items[i];
    for (int s = 0; s < item.signals; ++s)
      rank[i] = std::max(rank[i], longest[plan.signals[item.firstSignal + s]]);
    rank[i] += timeOf(i);
    for (int w = 0; w < item.waits; ++w) {
      double &after = longest[plan.waits[item.firstWait + w].counter];
      after = std::max(after, rank[i]);
    }
  }
}

/// The worker that made most of what the item waits for, if one did.
int Scheduler::homeOf(int item) const {
  const SuperItem &i = plan.items[item];
  auto [panel, panelCount] = panels[item];
  if (isHeavy(item) && panelCount >= workers)
    return static_cast<int>(int64_t(panel) * workers / panelCount);
  int worker = -1;
  double best = 0;
  for (int w = 0; w < i.waits; ++w) {
    const Maker &maker = makers[plan.waits[i.firstWait + w].counter];
    if (maker.worker >= 0 && maker.bytes > best) {
      best = maker.bytes;
      worker = maker.worker;
    }
  }
  auto [first, count] = launchItems[item];
  return worker >= 0
             ? worker
             : static_cast<int>(int64_t(item - first) * workers / count);
}

void Scheduler::makeReady(int item) {
  int home = homeOf(item);
  poolOf[item] = home;
  pools[home].insert(readyOf(item));
  backlog[home] += timeOf(item);
  urgent.insert({-rank[item], item});
}

/// The item that a free worker takes; -1 if it had better wait.
int Scheduler::choose(int worker, double now) {
  if (urgent.empty())
    return -1;
  int own = pools[worker].empty() ? -1 : pools[worker].begin()->item;
  // Where the longest way to the end lasts longer than all work, it decides.
  double longestWay = -urgent.begin()->first;
  if (longestWay > remaining / workers && (own < 0 || rank[own] < longestWay))
    return urgent.begin()->second;
  if (own >= 0)
    return own;
  int victim = -1;
  double longest = 0;
  for (int w = 0; w < workers; ++w) {
    double until = std::max(freeAt[w] - now, 0.0) + backlog[w];
    if (!pools[w].empty() && until > longest) {
      longest = until;
      victim = w;
    }
  }
  if (victim < 0)
    return -1;
  int item = pools[victim].rbegin()->item;
  double saved = longest - timeOf(item);
  return saved >= moveTime + plan.bytes[item] / moveRate ? item : -1;
}

void Scheduler::start(int item, int worker, double now) {
  int pool = poolOf[item];
  pools[pool].erase(readyOf(item));
  backlog[pool] -= timeOf(item);
  urgent.erase({-rank[item], item});
  remaining -= timeOf(item);
  lists[worker].push_back(item);
  order.push_back(item);
  freeAt[worker] = now + timeOf(item);
  running.push({freeAt[worker], item, worker});
}

/// Every worker that is free now gets an item, if there is one for it.
void Scheduler::assign(double now) {
  for (int worker = 0; worker < workers; ++worker)
    if (freeAt[worker] <= now)
      if (int item = choose(worker, now); item >= 0)
        start(item, worker, now);
}

void Scheduler::finish(const End &end) {
  const SuperItem &item = plan.items[end.item];
  for (int s = 0; s < item.signals; ++s) {
    int counter = plan.signals[item.firstSignal + s];
    Maker &maker = makers[counter];
    bool isFirst = left[counter] == plan.counters[counter];
    maker.worker = isFirst || maker.worker == end.worker ? end.worker : -1;
    maker.bytes += plan.bytes[end.item];
    if (--left[counter] > 0)
      continue;
    for (int waiter : waiters[counter])
      if (--missing[waiter] == 0)
        makeReady(waiter);
  }
}

SuperQueues Scheduler::run() {
  prepare();
  for (size_t i = 0; i < plan.items.size(); ++i)
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
  SuperQueues queues;
  queues.time = now;
  queues.order = std::move(order);
  for (const std::vector<int> &list : lists) {
    queues.first.push_back(static_cast<int>(queues.items.size()));
    queues.items.insert(queues.items.end(), list.begin(), list.end());
  }
  queues.first.push_back(static_cast<int>(queues.items.size()));
  return queues;
}

} // namespace

SuperQueues fillQueues(const SuperPlan &plan, int workers) {
  return Scheduler(plan, workers).run();
}

SuperPlan::~SuperPlan() {
  for (auto &entry : queues)
    delete entry.load(std::memory_order_relaxed);
}

const SuperQueues &SuperPlan::queuesFor(int workers) const {
  workers = std::min(std::max(workers, 1), most);
  std::atomic<const SuperQueues *> &entry = queues[workers - 1];
  if (const SuperQueues *known = entry.load(std::memory_order_acquire))
    return *known;
  std::lock_guard<std::mutex> lock(making);
  if (!entry.load(std::memory_order_relaxed))
    entry.store(new SuperQueues(fillQueues(*this, workers)),
                std::memory_order_release);
  return *entry.load(std::memory_order_relaxed);
}

} // namespace anabranch::runtime
