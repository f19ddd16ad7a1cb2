//===- BuildTaskGraph.cpp - cut a super kernel into tasks -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/superkernel/BuildTaskGraph.h"

#include "machine/limits/MachineRates.h"
#include "package/verify/Extent.h"
#include "runtime/superkernel/TaskDependences.h"
#include "runtime/superkernel/VerifyTaskGraph.h"

#include <algorithm>
#include <map>

namespace anabranch::runtime {

namespace {

using machine::UsualCore;

/// A task should take at least this many nanoseconds. The other two bound the
/// number of tasks of a launch, and of all launches together.
constexpr double worthClaiming = 500;
constexpr int64_t mostTasks = 256, mostTasksOfAll = 1 << 14;
/// A launch of at most this many tiles asks the kernel for the footprint of
/// each. In a larger launch each tile may touch everything.
constexpr int64_t mostTiles = 1 << 14;

/// If a task touches more parts of a buffer than this, it counts as touching
/// all bytes between them.
constexpr size_t mostRegions = 8;

StridedRegion hullOf(const std::vector<StridedRegion> &regions) {
  int64_t begin = regions.front().begin, end = regions.front().end();
  for (const StridedRegion &region : regions) {
    begin = std::min(begin, region.begin);
    end = std::max(end, region.end());
  }
  return {begin, end - begin, 0, 1};
}

class GraphBuilder {
public:
  GraphBuilder(const Plan &plan, const Commands &commands,
               const SuperKernel &super, const std::vector<int64_t> &slots)
      : plan(plan), commands(commands), super(super), slots(slots) {}

  Expected<TaskGraph> build();

private:
  Status addLaunch(int member);
  int64_t tilesForTask(int64_t tiles, double time, int cores) const;
  double timeOf(int member) const;
  int64_t extentOf(int buffer) const;
  void addTask(int member, int64_t first, int64_t count, double time,
               bool isKnown);
  void addFootprint(int member, int64_t first, int64_t count,
                    std::vector<std::vector<StridedRegion>> &regions) const;
  void addWhole(int member,
                std::vector<std::vector<StridedRegion>> &regions) const;
  int memoryOf(int buffer);

  const LaunchPlan &launchOf(int member) const {
    return commands.launches[super.firstLaunch + member];
  }
  int bufferOf(const LaunchPlan &launch, int operand) const {
    return commands.operands[launch.firstOperand + operand];
  }
  int64_t valueOf(const Size &size) const {
    return runtime::valueOf(size, slots.data());
  }
  /// The offset of a buffer in its memory. Constants cannot conflict.
  int64_t baseOf(int buffer) const {
    const BufferPlan &b = plan.buffers[buffer];
    return b.kind == BufferKind::Arena ? valueOf(b.offset) : 0;
  }
  bool isConstant(int buffer) const {
    BufferKind kind = plan.buffers[buffer].kind;
    return kind == BufferKind::Constant || kind == BufferKind::Persistent;
  }

  const Plan &plan;
  const Commands &commands;
  const SuperKernel &super;
  const std::vector<int64_t> &slots;
  TaskAccesses accesses;
  TaskGraph graph;
  std::map<std::pair<BufferKind, int>, int> memories;
  std::vector<int64_t> sizes; ///< of the current launch
};

int GraphBuilder::memoryOf(int buffer) {
  const BufferPlan &b = plan.buffers[buffer];
  int index = b.kind == BufferKind::Arena      ? 0
              : b.kind == BufferKind::External ? buffer
                                               : b.index;
  return memories
      .try_emplace({b.kind, index}, static_cast<int>(memories.size()))
      .first->second;
}

int64_t GraphBuilder::extentOf(int buffer) const {
  const BufferPlan &b = plan.buffers[buffer];
  if (b.kind == BufferKind::Arena)
    return valueOf(b.bytes);
  std::vector<int64_t> shape, strides;
  for (const Size &size : b.shape)
    shape.push_back(valueOf(size));
  for (const Size &stride : b.strides)
    strides.push_back(valueOf(stride));
  return package::extentOf(shape.data(),
                           strides.empty() ? nullptr : strides.data(),
                           shape.size(), itemSize(b.dtype))
      .end;
}

/// The time of all tiles of a member on a usual core, in nanoseconds: from its
/// work if the compiler knows it, else the time to read all its buffers.
double GraphBuilder::timeOf(int member) const {
  const trace::Label &label = plan.info->labels[super.firstLabel + member];
  if (label.work)
    return std::max(
        trace::valueOf(label.work->flops, slots) / UsualCore::gflops,
        trace::valueOf(label.work->bytes, slots) / UsualCore::memoryGBs);
  const LaunchPlan &launch = launchOf(member);
  double bytes = 0;
  for (int i = 0; i < launch.operandCount; ++i)
    bytes += static_cast<double>(extentOf(bufferOf(launch, i)));
  return bytes / UsualCore::memoryGBs;
}

/// How many tiles make a task. A launch with a core limit has no more tasks
/// than cores.
int64_t GraphBuilder::tilesForTask(int64_t tiles, double time,
                                   int cores) const {
  int64_t most =
      std::clamp<int64_t>(mostTasksOfAll / super.launchCount, 1, mostTasks);
  if (cores > 0)
    most = std::min<int64_t>(most, cores);
  most =
      std::clamp<int64_t>(static_cast<int64_t>(time / worthClaiming), 1, most);
  return std::max<int64_t>(1, (tiles + most - 1) / most);
}

/// Adds the regions of each operand. Neighbouring tiles mostly touch
/// neighbouring bytes, so their regions are joined where possible.
void GraphBuilder::addFootprint(
    int member, int64_t first, int64_t count,
    std::vector<std::vector<StridedRegion>> &regions) const {
  const LaunchPlan &launch = launchOf(member);
  std::vector<anabranch_strided_region> said(launch.operandCount);
  for (int64_t tile = first; tile < first + count; ++tile) {
    launch.kernel.footprint(sizes.data(), tile, said.data());
    for (int i = 0; i < launch.operandCount; ++i) {
      std::optional<StridedRegion> region =
          regionAt(said[i], baseOf(bufferOf(launch, i)));
      std::vector<StridedRegion> &list = regions[i];
      if (region && (list.empty() || !join(list.back(), *region)))
        list.push_back(*region);
      if (list.size() > mostRegions)
        list = {hullOf(list)};
    }
  }
}

void GraphBuilder::addWhole(
    int member, std::vector<std::vector<StridedRegion>> &regions) const {
  const LaunchPlan &launch = launchOf(member);
  for (int i = 0; i < launch.operandCount; ++i) {
    int buffer = bufferOf(launch, i);
    if (int64_t bytes = extentOf(buffer); bytes > 0)
      regions[i].push_back({baseOf(buffer), bytes, 0, 1});
  }
}

void GraphBuilder::addTask(int member, int64_t first, int64_t count,
                           double time, bool isKnown) {
  const LaunchPlan &launch = launchOf(member);
  Task task;
  task.launch = super.firstLaunch + member;
  task.label = super.firstLabel + member;
  task.tile = first;
  task.tiles = count;
  std::vector<std::vector<StridedRegion>> regions(launch.operandCount);
  if (isKnown)
    addFootprint(member, first, count, regions);
  else
    addWhole(member, regions);
  double read = 0, written = 0;
  ConstantRead constant;
  TaskAccesses::Launch &touched = accesses.launches.back();
  for (int i = 0, operand = 0; i < launch.operandCount; ++i) {
    if (isConstant(bufferOf(launch, i))) {
      if (isKnown && !regions[i].empty() &&
          (constant.operand < 0 ||
           constant.region.bytes() < regions[i][0].bytes()))
        constant = {launch.firstOperand + i, regions[i][0]};
      continue;
    }
    OperandFootprint &footprint = touched.operands[operand++];
    for (const StridedRegion &region : regions[i]) {
      footprint.add(region);
      (footprint.writes ? written : read) +=
          static_cast<double>(region.bytes());
    }
    footprint.first.push_back(static_cast<int>(footprint.regions.size()));
  }
  ++touched.taskCount;
  graph.tasks.push_back(task);
  graph.constants.push_back(constant);
  graph.times.push_back(time);
  graph.serialTime += time;
  graph.bytes.push_back(written);
  graph.reads.push_back(read);
}

Status GraphBuilder::addLaunch(int member) {
  const LaunchPlan &launch = launchOf(member);
  sizes.clear();
  for (int i = 0; i < launch.sizeCount; ++i)
    sizes.push_back(valueOf(commands.sizes[launch.firstSize + i]));
  anabranch_kernel_plan grid{0, 0};
  launch.kernel.grid(sizes.data(), &grid);
  if (grid.tiles < 0 || grid.tiles >> 32)
    return Status(StatusCode::Internal, "a kernel has an impossible grid");
  accesses.launches.emplace_back();
  TaskAccesses::Launch &m = accesses.launches.back();
  m.firstTask = static_cast<int>(graph.tasks.size());
  for (int i = 0; i < launch.operandCount; ++i)
    if (int buffer = bufferOf(launch, i); !isConstant(buffer)) {
      m.operands.emplace_back();
      m.operands.back().memory = memoryOf(buffer);
      m.operands.back().writes = i >= launch.inputCount;
      m.operands.back().first = {0};
    }
  double time = timeOf(member);
  bool isKnown = launch.kernel.footprint && grid.tiles <= mostTiles;
  int64_t count = tilesForTask(grid.tiles, time, launch.cores);
  for (int64_t first = 0; first < grid.tiles; first += count) {
    int64_t here = std::min(count, grid.tiles - first);
    double part = static_cast<double>(here) / static_cast<double>(grid.tiles);
    addTask(member, first, here, time * part, isKnown);
  }
  return {};
}

Expected<TaskGraph> GraphBuilder::build() {
  for (int member = 0; member < super.launchCount; ++member)
    if (Status s = addLaunch(member); !s.ok())
      return s;
  accesses.orders = super.orders;
  findDependences(accesses, graph);
  if (std::string wrong = verifyTaskGraph(accesses, graph); !wrong.empty())
    return Status(StatusCode::Internal, "a super kernel is refused: " + wrong);
  return std::move(graph);
}

} // namespace

Expected<TaskGraph> buildTaskGraph(const Plan &plan, const Commands &commands,
                                   const SuperKernel &super,
                                   const std::vector<int64_t> &slots) {
  return GraphBuilder(plan, commands, super, slots).build();
}

} // namespace anabranch::runtime
