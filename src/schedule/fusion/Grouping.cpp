//===- Grouping.cpp - which operators share a kernel ----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/fusion/Grouping.h"

#include "analysis/OperationCost.h"
#include "analysis/PaddedTaps.h"
#include "ir/Anabranch.h"
#include "ir/Explain.h"
#include "ir/SteadyInput.h"
#include "ir/WritingCall.h"
#include "schedule/fusion/Layouts.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include <queue>

using namespace mlir;

namespace anabranch {
namespace schedule {

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

Grouping::Grouping(func::FuncOp main, Operators ofCalls)
    : ofCalls(std::move(ofCalls)) {
  Block &block = main.getBody().front();
  for (Operation &op : block)
    kinds[&op] = classify(&op);
  for (Operation &op : block)
    if (isPaddingOfWindows(&op) || analysis::isPaddingOfTaps(&op) ||
        isWideningOfBytes(&op))
      kinds[&op] = OpKind::Cloned;
  for (Operation &op : block)
    if (kinds[&op] == OpKind::Fallback || kinds[&op] == OpKind::Return)
      findStoredViews(&op);
  for (Operation &op : block) {
    OpKind kind = kinds[&op];
    if (storedViews.contains(&op))
      addNode(&op, OpKind::Pointwise);
    else if (kind != OpKind::Scalar && kind != OpKind::Cloned &&
             kind != OpKind::Return)
      addNode(&op, kind);
  }
  linkUsers(block.getTerminator());
  for (int i = 0, e = nodes.size(); i < e; ++i)
    seedGroup(i);
  orderCalls();
  orderOverwrites();
  orderNodes();
  orderIgnored();
  visited.assign(groups.size(), 0);
}

/// An operand that a body ignores is not read. The operator is still cloned
/// into a dispatch with this operand, so the operand's maker must come before.
void Grouping::orderIgnored() {
  for (Node &node : nodes) {
    DenseSet<int> read;
    for (const analysis::DimRead &input : node.reads)
      read.insert(producerOf(input.value));
    SmallVector<Operation *> work{node.op};
    DenseSet<Operation *> seen;
    while (!work.empty())
      for (Value operand : analysis::allOperands(work.pop_back_val())) {
        Operation *op = operand.getDefiningOp();
        int producer = producerOf(operand);
        if (producer >= 0 && read.insert(producer).second)
          node.before.push_back(producer);
        if (producer < 0 && op && isCloned(op) && seen.insert(op).second)
          work.push_back(op);
      }
  }
}

/// Keeps the order of calls with effects, such as those that take random
/// numbers.
void Grouping::orderCalls() {
  int last = -1;
  for (int i = 0, e = nodes.size(); i < e; ++i) {
    auto call = dyn_cast<ir::AtenOp>(nodes[i].op);
    if (!call || !call.getOrdered())
      continue;
    if (last >= 0)
      nodes[i].before.push_back(last);
    last = i;
  }
}

/// Keeps readers of an old value, which come before the operator that writes
/// its memory, there. So the operator can write in place.
void Grouping::orderOverwrites() {
  DenseMap<Value, SmallVector<int>> readers; // by bytes
  for (int i = 0, e = nodes.size(); i < e; ++i) {
    if (auto call = dyn_cast<ir::AtenOp>(nodes[i].op))
      for (Value value : ir::newValues(call))
        if (Value old = ir::oldValue(value))
          llvm::append_range(nodes[i].before,
                             readers.lookup(lookThroughReshapes(old)));
    for (const analysis::DimRead &read : nodes[i].reads)
      readers[lookThroughReshapes(read.value)].push_back(i);
  }
}

/// Orders nodes beside their values. A fence comes after the earlier nodes of
/// its stream and before the later ones. A node comes after those whose points
/// it waits for. Nodes that run at load are ordered by values alone.
void Grouping::orderNodes() {
  struct Stream {
    int fence = -1;
    SmallVector<int> since; // the last fence
  };
  llvm::StringMap<Stream> streams;
  DenseMap<int64_t, int> points;
  for (int i = 0, e = nodes.size(); i < e; ++i)
    for (int64_t point : ir::pointsMade.of(nodes[i].op))
      points[point] = i;
  for (int i = 0, e = nodes.size(); i < e; ++i) {
    Node &node = nodes[i];
    if (groups[node.group].constant)
      continue;
    for (int64_t point : ir::pointsAwaited.of(node.op))
      if (auto found = points.find(point); found != points.end())
        node.before.push_back(found->second);
    Stream &stream = streams[ir::streamOf(node.op)];
    node.fence = stream.fence;
    if (node.fence >= 0)
      node.before.push_back(node.fence);
    if (node.kind != OpKind::Fence) {
      stream.since.push_back(i);
      continue;
    }
    llvm::append_range(node.before, stream.since);
    stream.since.clear();
    stream.fence = i;
  }
}

bool Grouping::isCloned(Operation *op) const {
  auto found = kinds.find(op);
  return found != kinds.end() && found->second == OpKind::Cloned &&
         !storedViews.contains(op);
}

/// A call or the caller needs a tensor's bytes. So a view before it is stored,
/// not recomputed; a reshape of a whole buffer shares the buffer's bytes
/// instead.
void Grouping::findStoredViews(Operation *reader) {
  for (Value operand : reader->getOperands()) {
    Operation *reshape = nullptr;
    Operation *op = operand.getDefiningOp();
    while (isReshape(op)) {
      reshape = op;
      operand = op->getOperand(0);
      op = operand.getDefiningOp();
    }
    if (op && kinds.lookup(op) == OpKind::Cloned)
      storedViews.insert(op);
    auto argument = dyn_cast<BlockArgument>(operand);
    auto main = cast<func::FuncOp>(reader->getParentOp());
    if (argument && reshape && stridesOfArgument(main, argument.getArgNumber()))
      storedViews.insert(reshape);
  }
}

void Grouping::addNode(Operation *op, OpKind kind) {
  Node node;
  node.op = op;
  node.kind = kind;
  node.expensive = analysis::isCostlyToRepeat(op);
  node.readsTaps = analysis::readsPaddedTaps(op);
  node.scope = ir::scopeOf(op);
  node.loops = analysis::spaceOf(op);
  node.reads = analysis::dimReadsOf(
      op, [&](Operation *inner) { return isCloned(inner); });
  nodeOf[op] = nodes.size();
  nodes.push_back(std::move(node));
}

void Grouping::linkUsers(Operation *terminator) {
  auto addUser = [&](ArrayRef<analysis::DimRead> reads, int user) {
    for (const analysis::DimRead &read : reads) {
      int producer = producerOf(read.value);
      if (producer >= 0 && !llvm::is_contained(nodes[producer].users, user))
        nodes[producer].users.push_back(user);
    }
  };
  for (int i = 0, e = nodes.size(); i < e; ++i)
    addUser(nodes[i].reads, i);
  addUser(analysis::dimReadsOf(
              terminator, [&](Operation *inner) { return isCloned(inner); }),
          -1);
}

int Grouping::producerOf(Value value) const {
  Operation *op = value.getDefiningOp();
  auto found = nodeOf.find(op);
  return op && found != nodeOf.end() ? found->second : -1;
}

/// The bytes of a tensor of a static shape.
static int64_t bytesOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() * std::max(8u, type.getElementTypeBitWidth()) /
         8;
}

/// Whether load keeps results of these bytes for the sake of those read.
static bool isWorthKeeping(int64_t made, int64_t read) {
  constexpr int64_t small = 1 << 20;
  return made <= 2 * read + small;
}

static bool grows(const Node &node) {
  int64_t read = 0, made = 0;
  for (const analysis::DimRead &input : node.reads)
    read += bytesOf(input.value);
  for (Value result : node.op->getResults())
    made += bytesOf(result);
  return !isWorthKeeping(made, read);
}

void Grouping::seedGroup(int index) {
  Node &node = nodes[index];
  FusionGroup group;
  group.kind = node.kind;
  group.nodes.push_back(index);
  group.axisCount = node.loops.sizes.size();
  group.axisSizes = node.loops.sizes;
  group.cost = analysis::operationsOf(node.op);
  for (int axis = 0; axis < group.axisCount; ++axis)
    node.axes.push_back(axis);
  if (node.kind == OpKind::Reduction) {
    group.hasRows = true;
    for (int axis = 0; axis < group.axisCount; ++axis)
      if (!node.loops.reduces[axis] && node.loops.sizes[axis] != 1)
        group.rows.push_back(axis);
  }
  group.constant = dependsOnConstantsOnly(node);
  node.grows = group.constant && grows(node);
  node.group = groups.size();
  groups.push_back(std::move(group));
}

SmallVector<analysis::Gather> gathersInPlace(const Node &reader) {
  SmallVector<analysis::Gather> gathers;
  if (auto attention = dyn_cast<ir::AttentionOp>(reader.op)) {
    llvm::append_range(gathers, analysis::gathersOfRows(attention.getKey()));
    llvm::append_range(gathers, analysis::gathersOfRows(attention.getValue()));
  } else if (reader.kind == OpKind::Contraction) {
    auto product = cast<linalg::GenericOp>(reader.op);
    for (unsigned operand : {0, 1})
      if (auto gather = analysis::placedGather(product, operand))
        gathers.push_back(*gather);
  }
  return gathers;
}

//===----------------------------------------------------------------------===//
// Groups that run at load
//===----------------------------------------------------------------------===//

bool Grouping::isConstant(Value value) const {
  if (isa<BlockArgument>(value))
    return ir::isSteady(value);
  int producer = producerOf(value);
  return producer >= 0 && groups[nodes[producer].group].constant;
}

static bool hasKnownSize(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.hasStaticShape() && type.getElementType().isIntOrFloat();
}

/// Whether the node reads frozen values and literals only.
bool Grouping::dependsOnConstantsOnly(const Node &node) const {
  if (node.kind == OpKind::Fallback || node.kind == OpKind::Fence ||
      ofCalls.contains(node.op) ||
      !llvm::all_of(node.op->getResults(), hasKnownSize) ||
      !llvm::all_of(node.reads, [&](const analysis::DimRead &input) {
        return isConstant(input.value) && hasKnownSize(input.value);
      }))
    return false;
  // Its sizes and scalars, also those of the views before it, must be literals.
  SmallVector<Operation *> work{node.op};
  DenseSet<Operation *> seen;
  while (!work.empty())
    for (Value operand : analysis::allOperands(work.pop_back_val())) {
      Operation *op = operand.getDefiningOp();
      bool isTensor = isa<RankedTensorType>(operand.getType());
      if (!isTensor && (!op || !op->hasTrait<OpTrait::ConstantLike>()))
        return false;
      // An operand that the body ignores is not read, but the kernel still has
      // it as an input.
      bool isBoundary = isa<BlockArgument>(operand) || producerOf(operand) >= 0;
      if (isTensor && isBoundary && !isConstant(operand))
        return false;
      if (isTensor && op && isCloned(op) && seen.insert(op).second)
        work.push_back(op);
    }
  return true;
}

/// Whether the group stores much more than it reads. A group of operators none
/// of which does so by itself may.
bool Grouping::keepsTooMuch(const FusionGroup &group) const {
  if (llvm::none_of(group.nodes, [&](int index) { return nodes[index].grows; }))
    return false;
  DenseSet<Value> inputs;
  int64_t read = 0, made = 0;
  for (int index : group.nodes) {
    const Node &node = nodes[index];
    for (const analysis::DimRead &input : node.reads) {
      int producer = producerOf(input.value);
      bool isInside = producer >= 0 && &groups[nodes[producer].group] == &group;
      if (!isInside && inputs.insert(input.value).second)
        read += bytesOf(input.value);
    }
    if (isStored(group, node))
      for (Value result : node.op->getResults())
        made += bytesOf(result);
  }
  return !isWorthKeeping(made, read);
}

Grouping::Operators Grouping::tooLargeToKeep() const {
  Operators found;
  for (const FusionGroup &group : groups)
    if (group.alive && group.constant && keepsTooMuch(group))
      for (int index : group.nodes)
        found.insert(nodes[index].op);
  return found;
}

//===----------------------------------------------------------------------===//
// The graph of groups
//===----------------------------------------------------------------------===//

bool Grouping::isStored(const FusionGroup &group, const Node &node) const {
  return llvm::any_of(node.users, [&](int user) {
    return user < 0 || &groups[nodes[user].group] != &group;
  });
}

SmallVector<int> Grouping::producersOf(const FusionGroup &group) const {
  llvm::SetVector<int, SmallVector<int>> producers;
  for (int index : group.nodes) {
    for (const analysis::DimRead &read : nodes[index].reads) {
      int producer = producerOf(read.value);
      if (producer >= 0 && &groups[nodes[producer].group] != &group)
        producers.insert(nodes[producer].group);
    }
    for (int before : nodes[index].before)
      if (&groups[nodes[before].group] != &group)
        producers.insert(nodes[before].group);
  }
  return producers.takeVector();
}

bool Grouping::reachesIndirectly(int from, int to) const {
  ++query;
  int first = groups[from].nodes.front();
  SmallVector<int> work;
  for (int producer : producersOf(groups[to]))
    if (producer != from)
      work.push_back(producer);
  while (!work.empty()) {
    int next = work.pop_back_val();
    if (next == from)
      return true;
    // A group that ends before `from` begins, in program order, cannot depend
    // on it.
    if (visited[next] == query || groups[next].nodes.back() < first)
      continue;
    visited[next] = query;
    llvm::append_range(work, producersOf(groups[next]));
  }
  return false;
}

std::vector<const FusionGroup *> Grouping::order() const {
  std::vector<SmallVector<int>> consumers(groups.size());
  std::vector<int> missing(groups.size(), 0);
  using Entry = std::pair<int, int>; // last node, group
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
  for (int i = 0, e = groups.size(); i < e; ++i) {
    if (!groups[i].alive)
      continue;
    for (int producer : producersOf(groups[i])) {
      consumers[producer].push_back(i);
      ++missing[i];
    }
    if (!missing[i])
      ready.push({groups[i].nodes.back(), i});
  }
  std::vector<const FusionGroup *> sorted;
  while (!ready.empty()) {
    int group = ready.top().second;
    ready.pop();
    sorted.push_back(&groups[group]);
    for (int consumer : consumers[group])
      if (--missing[consumer] == 0)
        ready.push({groups[consumer].nodes.back(), consumer});
  }
  return sorted;
}

} // namespace schedule
} // namespace anabranch
