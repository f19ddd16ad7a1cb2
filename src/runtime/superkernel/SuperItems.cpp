//===- SuperItems.cpp - cut a super kernel into items
//----------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "runtime/superkernel/SuperItems.h"

#include "package/verify/Extent.h"

#include <algorithm>
#include <map>

namespace anabranch::runtime {

namespace {

/// Work of an item in nanoseconds that is worth claiming, and how many items a
/// launch has at most, alone and together with the others.
constexpr double worthClaiming = 500;
constexpr int64_t mostItems = 256, mostItemsOfAll = 1 << 14;
/// Tiles that say one by one what they touch; of more than this, each may touch
/// everything.
constexpr int64_t mostTiles = 1 << 14;
/// One core's usual arithmetic and memory traffic, for a nanosecond.
constexpr double flopRate = 50, byteRate = 10;

/// An item that touches more parts of a buffer touches all between them, too.
constexpr size_t mostReaches = 8;

Reach hullOf(const std::vector<Reach> &reaches) {
  int64_t begin = reaches.front().begin, end = reaches.front().end();
  for (const Reach &reach : reaches) {
    begin = std::min(begin, reach.begin);
    end = std::max(end, reach.end());
  }
  return {begin, end - begin, 0, 1};
}

class ItemMaker {
public:
  ItemMaker(const Plan &plan, const Commands &commands,
            const SuperKernel &super)
      : plan(plan), commands(commands), super(super),
        made(std::make_unique<SuperPlan>()) {}

  Expected<std::unique_ptr<SuperPlan>> make();

private:
  Status addLaunch(int member);
  int64_t tilesForItem(int64_t tiles, double time, int cores) const;
  double timeOf(int member) const;
  int64_t extentOf(int buffer) const;
  void addItem(int member, int64_t first, int64_t count, double time,
               bool isKnown);
  void addReaches(int member, int64_t first, int64_t count,
                  std::vector<std::vector<Reach>> &reaches) const;
  void addWhole(int member, std::vector<std::vector<Reach>> &reaches) const;
  int memoryOf(int buffer);

  const LaunchPlan &launchOf(int member) const {
    return commands.launches[super.firstLaunch + member];
  }
  int bufferOf(const LaunchPlan &launch, int operand) const {
    return commands.operands[launch.firstOperand + operand];
  }
  /// Offsets of a buffer's memory; no conflict is looked for in constants.
  int64_t baseOf(int buffer) const {
    const BufferPlan &b = plan.buffers[buffer];
    return b.kind == BufferKind::Arena ? b.offset.value() : 0;
  }
  bool isConstant(int buffer) const {
    BufferKind kind = plan.buffers[buffer].kind;
    return kind == BufferKind::Constant || kind == BufferKind::Persistent;
  }

  const Plan &plan;
  const Commands &commands;
  const SuperKernel &super;
  SuperShape shape;
  std::unique_ptr<SuperPlan> made;
  std::map<std::pair<BufferKind, int>, int> memories;
  std::vector<int64_t> sizes; ///< of the launch at hand
};

int ItemMaker::memoryOf(int buffer) {
  const BufferPlan &b = plan.buffers[buffer];
  int index = b.kind == BufferKind::Arena      ? 0
              : b.kind == BufferKind::External ? buffer
                                               : b.index;
  return memories
      .try_emplace({b.kind, index}, static_cast<int>(memories.size()))
      .first->second;
}

int64_t ItemMaker::extentOf(int buffer) const {
  const BufferPlan &b = plan.buffers[buffer];
  if (b.kind == BufferKind::Arena)
    return b.bytes.value();
  std::optional<package::Extent> extent = package::staticExtent(
      static_cast<package::DType>(b.dtype), b.shape, b.strides);
  return extent ? extent->end : 0;
}

/// All tiles together: what the compiler says of the kernel, else as long as
/// all its buffers take to read.
double ItemMaker::timeOf(int member) const {
  const trace::Label &label = plan.info->labels[super.firstLabel + member];
  if (label.work)
    return std::max(trace::valueOf(label.work->flops, {}) / flopRate,
                    trace::valueOf(label.work->bytes, {}) / byteRate);
  const LaunchPlan &launch = launchOf(member);
  double bytes = 0;
  for (int i = 0; i < launch.operandCount; ++i)
    bytes += static_cast<double>(extentOf(bufferOf(launch, i)));
  return bytes / byteRate;
}

/// A launch that may use some workers only has no more items than these.
int64_t ItemMaker::tilesForItem(int64_t tiles, double time, int cores) const {
  int64_t most =
      std::clamp<int64_t>(mostItemsOfAll / super.launchCount, 1, mostItems);
  if (cores > 0)
    most = std::min<int64_t>(most, cores);
  most =
      std::clamp<int64_t>(static_cast<int64_t>(time / worthClaiming), 1, most);
  return std::max<int64_t>(1, (tiles + most - 1) / most);
}

/// Bytes of each operand; neighbouring tiles mostly touch neighbouring bytes.
void ItemMaker::addReaches(int member, int64_t first, int64_t count,
                           std::vector<std::vector<Reach>> &reaches) const {
  const LaunchPlan &launch = launchOf(member);
  std::vector<anabranch_reach> said(launch.operandCount);
  for (int64_t tile = first; tile < first + count; ++tile) {
    launch.kernel.reach(sizes.data(), tile, said.data());
    for (int i = 0; i < launch.operandCount; ++i) {
      std::optional<Reach> reach =
          reachOf(said[i], baseOf(bufferOf(launch, i)));
      std::vector<Reach> &list = reaches[i];
      if (reach && (list.empty() || !join(list.back(), *reach)))
        list.push_back(*reach);
      if (list.size() > mostReaches)
        list = {hullOf(list)};
    }
  }
}

void ItemMaker::addWhole(int member,
                         std::vector<std::vector<Reach>> &reaches) const {
  const LaunchPlan &launch = launchOf(member);
  for (int i = 0; i < launch.operandCount; ++i) {
    int buffer = bufferOf(launch, i);
    if (int64_t bytes = extentOf(buffer); bytes > 0)
      reaches[i].push_back({baseOf(buffer), bytes, 0, 1});
  }
}

void ItemMaker::addItem(int member, int64_t first, int64_t count, double time,
                        bool isKnown) {
  const LaunchPlan &launch = launchOf(member);
  SuperItem item;
  item.launch = super.firstLaunch + member;
  item.label = super.firstLabel + member;
  item.tile = first;
  item.tiles = count;
  std::vector<std::vector<Reach>> reaches(launch.operandCount);
  if (isKnown)
    addReaches(member, first, count, reaches);
  else
    addWhole(member, reaches);
  double read = 0, written = 0;
  SuperFetch fetch;
  SuperShape::Member &touched = shape.members.back();
  for (int i = 0, group = 0; i < launch.operandCount; ++i) {
    if (isConstant(bufferOf(launch, i))) {
      if (isKnown && !reaches[i].empty() &&
          (fetch.operand < 0 || fetch.reach.bytes() < reaches[i][0].bytes()))
        fetch = {launch.firstOperand + i, reaches[i][0]};
      continue;
    }
    TouchGroup &g = touched.groups[group++];
    for (const Reach &reach : reaches[i]) {
      g.add(reach);
      (g.writes ? written : read) += static_cast<double>(reach.bytes());
    }
    g.first.push_back(static_cast<int>(g.reaches.size()));
  }
  ++touched.itemCount;
  made->items.push_back(item);
  made->fetches.push_back(fetch);
  made->times.push_back(time);
  made->serialTime += time;
  made->bytes.push_back(written);
  made->reads.push_back(read);
}

Status ItemMaker::addLaunch(int member) {
  const LaunchPlan &launch = launchOf(member);
  sizes.clear();
  for (int i = 0; i < launch.sizeCount; ++i)
    sizes.push_back(commands.sizes[launch.firstSize + i].value());
  anabranch_kernel_plan grid{0, 0};
  launch.kernel.plan(sizes.data(), &grid);
  if (grid.tiles < 0 || grid.tiles >> 32)
    return Status(StatusCode::Internal, "a kernel has an impossible grid");
  shape.members.emplace_back();
  SuperShape::Member &m = shape.members.back();
  m.firstItem = static_cast<int>(made->items.size());
  for (int i = 0; i < launch.operandCount; ++i)
    if (int buffer = bufferOf(launch, i); !isConstant(buffer)) {
      m.groups.emplace_back();
      m.groups.back().memory = memoryOf(buffer);
      m.groups.back().writes = i >= launch.inputCount;
      m.groups.back().first = {0};
    }
  double time = timeOf(member);
  bool isKnown = launch.kernel.reach && grid.tiles <= mostTiles;
  int64_t count = tilesForItem(grid.tiles, time, launch.cores);
  for (int64_t first = 0; first < grid.tiles; first += count) {
    int64_t here = std::min(count, grid.tiles - first);
    double part = static_cast<double>(here) / static_cast<double>(grid.tiles);
    addItem(member, first, here, time * part, isKnown);
  }
  return {};
}

Expected<std::unique_ptr<SuperPlan>> ItemMaker::make() {
  for (int member = 0; member < super.launchCount; ++member)
    if (Status s = addLaunch(member); !s.ok())
      return s;
  shape.orders = super.orders;
  findWaits(shape, *made);
  if (std::string wrong = verifySuper(shape, *made); !wrong.empty())
    return Status(StatusCode::Internal, "a super kernel is refused: " + wrong);
  return std::move(made);
}

} // namespace

Expected<std::unique_ptr<SuperPlan>> planSuper(const Plan &plan,
                                               const Commands &commands,
                                               const SuperKernel &super) {
  return ItemMaker(plan, commands, super).make();
}

} // namespace anabranch::runtime
