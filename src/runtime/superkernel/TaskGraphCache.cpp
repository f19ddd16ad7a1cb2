//===- TaskGraphCache.cpp - a super kernel's tasks for its sizes ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/superkernel/TaskGraphCache.h"

#include "process/Fork.h"
#include "runtime/superkernel/BuildTaskGraph.h"

#include <algorithm>
#include <set>

namespace anabranch::runtime {

/// The slots that decide which tasks there are and which bytes they touch.
static std::vector<int> slotsOf(const Plan &plan, const Commands &commands,
                                const SuperKernel &super) {
  std::set<int> slots;
  auto add = [&](const Size &size) {
    if (size.slot() >= 0)
      slots.insert(size.slot());
  };
  for (int i = 0; i < super.launchCount; ++i) {
    const LaunchPlan &launch = commands.launches[super.firstLaunch + i];
    for (int s = 0; s < launch.sizeCount; ++s)
      add(commands.sizes[launch.firstSize + s]);
    for (int o = 0; o < launch.operandCount; ++o) {
      const BufferPlan &buffer =
          plan.buffers[commands.operands[launch.firstOperand + o]];
      add(buffer.offset);
      add(buffer.bytes);
      std::for_each(buffer.shape.begin(), buffer.shape.end(), add);
      std::for_each(buffer.strides.begin(), buffer.strides.end(), add);
    }
  }
  return {slots.begin(), slots.end()};
}

TaskGraphCache::TaskGraphCache(const Plan &plan, const Commands &commands,
                               const SuperKernel &super)
    : plan(plan), commands(commands), super(super),
      slotsUsed(slotsOf(plan, commands, super)) {}

Status TaskGraphCache::load() {
  if (!isStatic())
    return {};
  Expected<Tasks> made = make({});
  if (!made)
    return made.takeStatus();
  fixed = std::move(*made);
  return {};
}

Expected<TaskGraphCache::Tasks>
TaskGraphCache::make(const std::vector<int64_t> &slots) const {
  Expected<TaskGraph> graph = buildTaskGraph(plan, commands, super, slots);
  if (!graph)
    return graph.takeStatus();
  return Tasks(std::make_shared<const ScheduledTasks>(std::move(*graph)));
}

/// Making a graph takes long, so no lock is held meanwhile: two threads may
/// make the same one.
Expected<TaskGraphCache::Tasks>
TaskGraphCache::find(const std::vector<int64_t> &slots) const {
  if (isStatic())
    return fixed;
  std::vector<int64_t> binding = bindingOf(slots);
  {
    NoFork section;
    std::lock_guard<std::mutex> lock(mutex);
    if (!moveToFront(binding)) {
      entries.insert(entries.begin(), {std::move(binding), nullptr});
      dropOldest();
      return Tasks();
    }
    if (entries.front().tasks)
      return entries.front().tasks;
  }
  Expected<Tasks> made = make(slots);
  if (!made)
    return made.takeStatus();
  return keep(binding, std::move(*made));
}

/// Keeps the graph, unless another thread was quicker. Returns the kept one.
TaskGraphCache::Tasks TaskGraphCache::keep(const std::vector<int64_t> &binding,
                                           Tasks made) const {
  NoFork section;
  std::lock_guard<std::mutex> lock(mutex);
  if (!moveToFront(binding))
    entries.insert(entries.begin(), {binding, nullptr});
  if (entries.front().tasks)
    return entries.front().tasks;
  entries.front().tasks = made;
  dropOldest();
  return made;
}

std::vector<int64_t>
TaskGraphCache::bindingOf(const std::vector<int64_t> &slots) const {
  std::vector<int64_t> binding;
  binding.reserve(slotsUsed.size());
  for (int slot : slotsUsed)
    binding.push_back(slots[static_cast<size_t>(slot)]);
  return binding;
}

/// False if the binding is not known.
bool TaskGraphCache::moveToFront(const std::vector<int64_t> &binding) const {
  auto known =
      std::find_if(entries.begin(), entries.end(), [&](const Entry &entry) {
        return entry.binding == binding;
      });
  if (known == entries.end())
    return false;
  std::rotate(entries.begin(), known, known + 1);
  return true;
}

/// Drops the bindings that were used longest ago, but never the latest.
void TaskGraphCache::dropOldest() const {
  size_t tasks = 0, kept = 0;
  while (kept < std::min(entries.size(), mostBindings)) {
    tasks += entries[kept].count();
    if (kept > 0 && tasks > mostTasks)
      break;
    ++kept;
  }
  entries.resize(kept);
}

void TaskGraphCache::trim() const {
  NoFork section;
  std::lock_guard<std::mutex> lock(mutex);
  entries.clear();
}

} // namespace anabranch::runtime
