//===- TaskDependences.cpp - what a task waits for ------------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// The search compares each launch with the earlier ones, the nearest first:
// dependences on these already imply most older ones. The closure of a task is
// the set of tasks that are done when it starts. It is kept as a bit for each
// task, and shared by tasks with the same dependences.

#include "runtime/superkernel/TaskDependences.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace anabranch::runtime {

namespace {

using Bits = std::vector<uint64_t>;
using Launch = TaskAccesses::Launch;

/// A task that would wait for more counters of one launch than this waits for
/// the whole launch.
constexpr size_t fewCounters = 4;
/// A task signals at most this many counters of need sets.
constexpr int fewSignals = 3;

bool has(const Bits &bits, int task) {
  return bits[task / 64] >> task % 64 & 1;
}
void put(Bits &bits, int task) { bits[task / 64] |= uint64_t(1) << task % 64; }
void put(Bits &bits, const Bits &other) {
  for (size_t i = 0; i < bits.size(); ++i)
    bits[i] |= other[i];
}

/// A set of tasks of one launch that some later task needs, as ranges [first,
/// last).
struct NeedSet {
  int member;
  std::vector<std::pair<int, int>> ranges; ///< of tasks, from 0 in each launch
  Bits closure;                            ///< the set, and all tasks before it
  bool used = false;
};

class DependenceFinder {
public:
  DependenceFinder(const TaskAccesses &accesses, TaskGraph &graph)
      : accesses(accesses), graph(graph),
        words((accesses.taskCount() + 63) / 64),
        closureOf(accesses.taskCount(), 0), needs(accesses.taskCount()),
        setsOf(accesses.launches.size()), signalsOf(accesses.taskCount()),
        ordersOf(accesses.launches.size()) {
    closures.push_back(Bits(words, 0));
    for (const LaunchOrder &order : accesses.orders)
      for (int member : order.after)
        ordersOf[member].push_back(&order);
  }

  void run() {
    for (size_t m = 0; m < accesses.launches.size(); ++m)
      findNeeds(static_cast<int>(m));
    std::vector<std::vector<Dependence>> dependencesOf(sets.size());
    for (size_t m = 0; m < accesses.launches.size(); ++m)
      makeCounters(static_cast<int>(m), dependencesOf);
    writeDependences(dependencesOf);
  }

private:
  using Pair = std::pair<const OperandFootprint *, const OperandFootprint *>;

  void findNeeds(int member);
  std::vector<Pair> conflicts(const Launch &later, const Launch &earlier) const;
  bool compare(int member, int earlier, const std::vector<Pair> &pairs,
               bool whole);
  bool isLikeLast(const std::vector<Pair> &pairs, int task) const;
  void mark(const OperandFootprint &group, const StridedRegion &region);
  int intern(int member);
  int extend(int closure, int set);
  bool contains(int closure, const NeedSet &set) const;
  int firstUndone(const Launch &member) const;

  void makeCounters(int member,
                    std::vector<std::vector<Dependence>> &dependencesOf);
  /// Adds a counter. If several tasks signal it, it gets a cache line of its
  /// own.
  int addCounter(bool isShared) {
    auto alignEnd = [&] {
      graph.counters.resize((graph.counters.size() + countersOfLine - 1) /
                            countersOfLine * countersOfLine);
    };
    if (isShared)
      alignEnd();
    auto counter = static_cast<int>(graph.counters.size());
    graph.counters.push_back(0);
    if (isShared)
      alignEnd();
    return counter;
  }
  void signal(int task, int counter) {
    signalsOf[task].push_back(counter);
    ++graph.counters[counter];
  }
  void
  writeDependences(const std::vector<std::vector<Dependence>> &dependencesOf);

  const TaskAccesses &accesses;
  TaskGraph &graph;
  const size_t words;
  std::vector<Bits> closures;
  std::vector<int> closureOf;          ///< by task: index into `closures`
  std::vector<std::vector<int>> needs; ///< by task: indices into `sets`
  std::vector<NeedSet> sets;
  std::vector<std::map<std::vector<std::pair<int, int>>, int>> setsOf;
  std::unordered_map<uint64_t, int> extended; ///< closure and set -> closure
  std::vector<char> marked;                   ///< tasks of the earlier launch
  std::vector<std::vector<int>> signalsOf;    ///< by task
  /// By member: the orders that it must come after.
  std::vector<std::vector<const LaunchOrder *>> ordersOf;
};

std::vector<DependenceFinder::Pair>
DependenceFinder::conflicts(const Launch &later, const Launch &earlier) const {
  std::vector<Pair> pairs;
  for (const OperandFootprint &a : later.operands)
    for (const OperandFootprint &b : earlier.operands)
      if (a.mayConflict(b))
        pairs.push_back({&a, &b});
  return pairs;
}

/// Whether the task touches the same regions as the task before it.
bool DependenceFinder::isLikeLast(const std::vector<Pair> &pairs,
                                  int task) const {
  if (task == 0)
    return false;
  for (auto [later, earlier] : pairs) {
    const StridedRegion *regions = later->regions.data();
    int before = later->first[task - 1], here = later->first[task],
        end = later->first[task + 1];
    if (!std::equal(regions + before, regions + here, regions + here,
                    regions + end))
      return false;
  }
  return true;
}

/// Marks the tasks of the earlier launch that share a byte with the region.
void DependenceFinder::mark(const OperandFootprint &group,
                            const StridedRegion &region) {
  size_t from = 0;
  if (group.ordered)
    from = std::partition_point(group.regions.begin(), group.regions.end(),
                                [&](const StridedRegion &r) {
                                  return r.end() <= region.begin;
                                }) -
           group.regions.begin();
  auto owner = std::upper_bound(group.first.begin(), group.first.end(),
                                static_cast<int>(from)) -
               group.first.begin() - 1;
  for (; from < group.regions.size(); ++from) {
    const StridedRegion &other = group.regions[from];
    if (group.ordered && other.begin >= region.end())
      return;
    while (group.first[owner + 1] <= static_cast<int>(from))
      ++owner;
    if (!marked[owner] && meets(other, region))
      marked[owner] = 1;
  }
}

/// The number of the set of all marked tasks; -1 if no task is marked.
int DependenceFinder::intern(int member) {
  std::vector<std::pair<int, int>> ranges;
  for (size_t i = 0; i < marked.size(); ++i)
    if (marked[i]) {
      auto task = static_cast<int>(i);
      if (!ranges.empty() && ranges.back().second == task)
        ++ranges.back().second;
      else
        ranges.push_back({task, task + 1});
    }
  if (ranges.empty())
    return -1;
  auto [known, isNew] =
      setsOf[member].try_emplace(ranges, static_cast<int>(sets.size()));
  if (!isNew)
    return known->second;
  NeedSet set{member, ranges, Bits(words, 0)};
  int last = -1;
  for (auto [first, end] : ranges)
    for (int task = first; task < end; ++task) {
      int number = accesses.launches[member].firstTask + task;
      put(set.closure, number);
      if (closureOf[number] != last)
        put(set.closure, closures[closureOf[number]]);
      last = closureOf[number];
    }
  sets.push_back(std::move(set));
  return known->second;
}

bool DependenceFinder::contains(int closure, const NeedSet &set) const {
  int base = accesses.launches[set.member].firstTask;
  for (auto [first, end] : set.ranges)
    for (int task = first; task < end; ++task)
      if (!has(closures[closure], base + task))
        return false;
  return true;
}

/// The closure extended by the set and all tasks before it; the same closure if
/// it has them.
int DependenceFinder::extend(int closure, int set) {
  uint64_t key = uint64_t(closure) << 32 | static_cast<uint32_t>(set);
  auto [known, isNew] = extended.try_emplace(key, closure);
  if (isNew && !contains(closure, sets[set])) {
    known->second = static_cast<int>(closures.size());
    closures.push_back(closures[closure]);
    put(closures.back(), sets[set].closure);
  }
  return known->second;
}

/// Compares all tasks of two launches. False if it found nothing new. With
/// `whole`, each task of the later launch needs all of the earlier one.
bool DependenceFinder::compare(int member, int earlier,
                               const std::vector<Pair> &pairs, bool whole) {
  const Launch &m = accesses.launches[member];
  marked.assign(accesses.launches[earlier].taskCount, whole);
  bool found = false;
  int set = whole ? intern(earlier) : -1;
  for (int task = 0; task < m.taskCount; ++task) {
    if (!whole && !isLikeLast(pairs, task)) {
      std::fill(marked.begin(), marked.end(), 0);
      for (auto [mine, other] : pairs)
        for (int r = mine->first[task]; r < mine->first[task + 1]; ++r)
          mark(*other, mine->regions[r]);
      set = intern(earlier);
    }
    if (set < 0)
      continue;
    int number = m.firstTask + task;
    int closure = extend(closureOf[number], set);
    if (closure == closureOf[number])
      continue;
    closureOf[number] = closure;
    needs[number].push_back(set);
    sets[set].used = true;
    found = true;
  }
  return found;
}

/// The first task of all that is perhaps not done when some task of the launch
/// starts.
int DependenceFinder::firstUndone(const Launch &member) const {
  int first = member.firstTask, seen = -1;
  for (int i = 0; i < member.taskCount; ++i) {
    int closure = closureOf[member.firstTask + i];
    if (closure == seen)
      continue;
    seen = closure;
    int word = 0;
    while (word * 64 < first && closures[closure][word] == ~uint64_t(0))
      ++word;
    if (word * 64 < first)
      first = std::min(first,
                       word * 64 + __builtin_ctzll(~closures[closure][word]));
  }
  return first;
}

void DependenceFinder::findNeeds(int member) {
  const Launch &m = accesses.launches[member];
  extended.clear();
  std::vector<bool> asked(accesses.launches.size(), false);
  for (const LaunchOrder *order : ordersOf[member])
    for (int before : order->before)
      asked[before] = true;
  int undone = 0;
  for (int earlier = member - 1; earlier >= 0; --earlier) {
    const Launch &e = accesses.launches[earlier];
    if (e.firstTask + e.taskCount <= undone)
      return;
    std::vector<Pair> pairs = conflicts(m, e);
    if ((asked[earlier] || !pairs.empty()) &&
        compare(member, earlier, pairs, asked[earlier]))
      undone = firstUndone(m);
  }
}

/// Makes the counters for the need sets of a launch. It makes one for each part
/// that no need set divides, or one for each set, whichever takes fewer signals
/// and waits.
void DependenceFinder::makeCounters(
    int member, std::vector<std::vector<Dependence>> &dependencesOf) {
  const Launch &m = accesses.launches[member];
  std::vector<int> used;
  for (const auto &entry : setsOf[member])
    if (sets[entry.second].used)
      used.push_back(entry.second);
  // The sets of each task. Tasks in the same sets form one part.
  std::vector<std::vector<int>> in(m.taskCount);
  int mostIn = 0;
  for (int set : used)
    for (auto [first, end] : sets[set].ranges)
      for (int task = first; task < end; ++task) {
        in[task].push_back(set);
        mostIn = std::max(mostIn, static_cast<int>(in[task].size()));
      }
  std::map<std::vector<int>, int> parts, sizes;
  std::map<int, std::vector<int>> partsOf; // by set
  for (int task = 0; task < m.taskCount; ++task)
    if (!in[task].empty() && ++sizes[in[task]] == 1)
      for (int set : in[task])
        partsOf[set].push_back(task); // the first task of a part stands for it
  size_t mostParts = 0;
  for (const auto &entry : partsOf)
    mostParts = std::max(mostParts, entry.second.size());

  if (mostParts > fewCounters && mostIn <= fewSignals) {
    for (int set : used) {
      int counter = addCounter(/*isShared=*/true);
      for (auto [first, end] : sets[set].ranges)
        for (int task = first; task < end; ++task)
          signal(m.firstTask + task, counter);
      dependencesOf[set] = {{counter, 0}};
    }
    return;
  }
  for (int task = 0; task < m.taskCount; ++task)
    if (!in[task].empty()) {
      auto [part, isNew] = parts.try_emplace(in[task], 0);
      if (isNew)
        part->second = addCounter(/*isShared=*/sizes[in[task]] > 1);
      signal(m.firstTask + task, part->second);
    }
  int all = -1;
  for (int set : used) {
    if (partsOf[set].size() <= fewCounters) {
      for (int task : partsOf[set])
        dependencesOf[set].push_back({parts[in[task]], 0});
      continue;
    }
    if (all < 0) {
      all = addCounter(/*isShared=*/true);
      for (int task = 0; task < m.taskCount; ++task)
        signal(m.firstTask + task, all);
    }
    dependencesOf[set] = {{all, 0}};
  }
}

void DependenceFinder::writeDependences(
    const std::vector<std::vector<Dependence>> &dependencesOf) {
  for (size_t i = 0; i < graph.tasks.size(); ++i) {
    Task &task = graph.tasks[i];
    task.firstSignal = static_cast<int>(graph.signals.size());
    task.signals = static_cast<int>(signalsOf[i].size());
    graph.signals.insert(graph.signals.end(), signalsOf[i].begin(),
                         signalsOf[i].end());
    // Neighbours with the same needs share their list.
    if (i > 0 && needs[i] == needs[i - 1]) {
      task.firstDependence = graph.tasks[i - 1].firstDependence;
      task.dependences = graph.tasks[i - 1].dependences;
      continue;
    }
    task.firstDependence = static_cast<int>(graph.dependences.size());
    for (int set : needs[i])
      for (Dependence wait : dependencesOf[set])
        graph.dependences.push_back(
            {wait.counter, graph.counters[wait.counter]});
    task.dependences =
        static_cast<int>(graph.dependences.size()) - task.firstDependence;
  }
}

} // namespace

void findDependences(const TaskAccesses &accesses, TaskGraph &graph) {
  DependenceFinder(accesses, graph).run();
}

} // namespace anabranch::runtime
