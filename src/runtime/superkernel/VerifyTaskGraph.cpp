//===- VerifyTaskGraph.cpp - do the counters suffice? ---------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// The verifier uses the finished tables only. A counter that is complete shows
// that all tasks which signal it are done. When a task starts, the tasks of its
// counters are done, and all tasks that were done when those started.

#include "runtime/superkernel/VerifyTaskGraph.h"

#include <map>

namespace anabranch::runtime {

namespace {

using Bits = std::vector<uint64_t>;

class GraphVerifier {
public:
  GraphVerifier(const TaskAccesses &accesses, const TaskGraph &graph)
      : accesses(accesses), graph(graph),
        tasks(static_cast<size_t>(accesses.taskCount())) {}

  std::string run() {
    if (std::string wrong = checkTables(); !wrong.empty())
      return wrong;
    findDone();
    for (size_t later = 0; later < accesses.launches.size(); ++later) {
      int undone = firstUndone(accesses.launches[later]);
      for (size_t earlier = later; earlier-- > 0;) {
        const TaskAccesses::Launch &e = accesses.launches[earlier];
        if (e.firstTask + e.taskCount <= undone)
          break;
        if (std::string wrong = compare(earlier, later); !wrong.empty())
          return wrong;
      }
    }
    return checkOrders();
  }

private:
  std::string checkTables();
  void findDone();
  bool isDone(int list, int task) const {
    return done[list][task / 64] >> task % 64 & 1;
  }
  int firstUndone(const TaskAccesses::Launch &member) const;
  std::string compare(size_t earlier, size_t later) const;
  std::string checkOrders() const;
  bool isDoneBefore(const TaskAccesses::Launch &earlier, int task) const;

  const TaskAccesses &accesses;
  const TaskGraph &graph;
  const size_t tasks;
  std::vector<std::vector<int>> signalers; ///< by counter: tasks
  std::vector<int> lists;                  ///< by task: index into `done`
  std::vector<Bits>
      done; ///< by list of dependences: the tasks that are certainly done
};

/// Checks that indices are in range, and that a counter is complete only when
/// all tasks which signal it are done.
std::string GraphVerifier::checkTables() {
  if (graph.tasks.size() != tasks)
    return "its tasks are not those of its launches";
  signalers.resize(graph.counters.size());
  for (size_t i = 0; i < tasks; ++i) {
    const Task &task = graph.tasks[i];
    if (task.firstDependence < 0 || task.dependences < 0 ||
        task.firstSignal < 0 || task.signals < 0 ||
        size_t(task.firstDependence) + size_t(task.dependences) >
            graph.dependences.size() ||
        size_t(task.firstSignal) + size_t(task.signals) > graph.signals.size())
      return "a task has dependences or signals that do not exist";
    for (int s = 0; s < task.signals; ++s) {
      int counter = graph.signals[task.firstSignal + s];
      if (counter < 0 || size_t(counter) >= signalers.size())
        return "a task signals a counter that does not exist";
      signalers[counter].push_back(static_cast<int>(i));
    }
  }
  for (size_t c = 0; c < signalers.size(); ++c)
    if (graph.counters[c] != static_cast<int>(signalers[c].size()))
      return "a counter does not count the tasks that signal it";
  for (const Dependence &wait : graph.dependences)
    if (wait.counter < 0 || size_t(wait.counter) >= signalers.size() ||
        wait.signals != graph.counters[wait.counter])
      return "a dependence is on a counter that does not exist, or on "
             "another number of signals";
  for (size_t i = 0; i < tasks; ++i)
    for (int w = 0; w < graph.tasks[i].dependences; ++w)
      for (int signaler :
           signalers[graph.dependences[graph.tasks[i].firstDependence + w]
                         .counter])
        if (signaler >= static_cast<int>(i))
          return "a task waits for a later one";
  return {};
}

void GraphVerifier::findDone() {
  std::map<std::pair<int, int>, int> known; // lists of dependences
  std::vector<int> listOf(tasks, -1);
  for (size_t i = 0; i < tasks; ++i) {
    const Task &task = graph.tasks[i];
    auto [entry, isNew] =
        known.try_emplace({task.firstDependence, task.dependences},
                          static_cast<int>(done.size()));
    lists.push_back(entry->second);
    if (!isNew)
      continue;
    Bits bits((tasks + 63) / 64, 0);
    std::vector<bool> added(done.size(), false);
    for (int w = 0; w < task.dependences; ++w)
      for (int before :
           signalers[graph.dependences[task.firstDependence + w].counter]) {
        bits[before / 64] |= uint64_t(1) << before % 64;
        if (added[lists[before]])
          continue;
        added[lists[before]] = true;
        for (size_t word = 0; word < bits.size(); ++word)
          bits[word] |= done[lists[before]][word];
      }
    done.push_back(std::move(bits));
  }
}

/// The first task that is perhaps not done when some task of the launch starts.
int GraphVerifier::firstUndone(const TaskAccesses::Launch &member) const {
  int first = member.firstTask, last = -1;
  for (int i = 0; i < member.taskCount; ++i) {
    int list = lists[member.firstTask + i];
    if (list == last)
      continue;
    last = list;
    for (int task = 0; task < first; ++task)
      if (task % 64 == 0 && done[list][task / 64] == ~uint64_t(0))
        task += 63;
      else if (!isDone(list, task))
        first = task;
  }
  return first;
}

std::string GraphVerifier::compare(size_t earlier, size_t later) const {
  const TaskAccesses::Launch &e = accesses.launches[earlier];
  const TaskAccesses::Launch &l = accesses.launches[later];
  for (const OperandFootprint &a : e.operands)
    for (const OperandFootprint &b : l.operands) {
      if (a.memory != b.memory || !(a.writes || b.writes) || a.end <= b.begin ||
          b.end <= a.begin)
        continue;
      for (int j = 0; j < l.taskCount; ++j)
        for (int i = 0; i < e.taskCount; ++i) {
          if (isDone(lists[l.firstTask + j], e.firstTask + i))
            continue;
          for (int y = b.first[j]; y < b.first[j + 1]; ++y)
            for (int x = a.first[i]; x < a.first[i + 1]; ++x)
              if (meets(a.regions[x], b.regions[y]))
                return "task " + std::to_string(i) + " of launch " +
                       std::to_string(earlier) + " and task " +
                       std::to_string(j) + " of launch " +
                       std::to_string(later) +
                       " use the same memory and nothing orders them";
        }
    }
  return {};
}

/// Whether all tasks of the launch are done when the task starts.
bool GraphVerifier::isDoneBefore(const TaskAccesses::Launch &earlier,
                                 int task) const {
  for (int i = 0; i < earlier.taskCount; ++i)
    if (!isDone(lists[task], earlier.firstTask + i))
      return false;
  return true;
}

std::string GraphVerifier::checkOrders() const {
  for (const LaunchOrder &order : accesses.orders)
    for (int later : order.after)
      for (int j = 0; j < accesses.launches[later].taskCount; ++j)
        for (int earlier : order.before)
          if (!isDoneBefore(accesses.launches[earlier],
                            accesses.launches[later].firstTask + j))
            return "task " + std::to_string(j) + " of launch " +
                   std::to_string(later) + " does not wait for launch " +
                   std::to_string(earlier) + ", as the program asks";
  return {};
}

} // namespace

std::string verifyTaskGraph(const TaskAccesses &accesses,
                            const TaskGraph &graph) {
  return GraphVerifier(accesses, graph).run();
}

} // namespace anabranch::runtime
