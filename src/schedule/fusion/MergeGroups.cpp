//===- MergeGroups.cpp - may two groups become one kernel -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/fusion/MergeGroups.h"

#include "analysis/OperationCost.h"
#include "ir/Sizes.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

/// The most operators in a kernel, which bounds its compile time.
static constexpr size_t maxNodes = 256;
static constexpr size_t maxBuffers = 48;
/// The most evaluations of operators for one point of the results.
static constexpr int64_t maxEvaluations = 512;
/// The most operations per element that a matrix product computes on an operand
/// while packing it. A kernel may pack a panel more than once.
static constexpr unsigned maxPrologueCost = 6;
/// A large row-wise kernel with fewer rows than this leaves workers idle.
static constexpr int64_t minRows = 8;
static constexpr int64_t largeElements = 64 * 1024;

bool Merge::refuse(const Twine &reason) {
  why = reason.str();
  return false;
}

bool Merge::check() {
  if (!checkOrder() || !checkKinds() || !checkSizes() || !checkTaps())
    return false;
  if (grouping.reachesIndirectly(producer, consumer))
    return refuse("another kernel needs the first part and feeds the second");
  if (!unifyAxes())
    return false;
  nameRemainingAxes();
  if (b.kind == OpKind::Insert)
    return checkStores();
  if (!b.isLoops())
    return checkPrologue();
  if (!mergeRows() || !checkRowReads() || !checkStores() ||
      !checkRecomputation())
    return false;
  return a.kind == OpKind::Contraction ? checkEpilogue() : checkParallelism();
}

//===----------------------------------------------------------------------===//
// Kinds and bounds
//===----------------------------------------------------------------------===//

/// All operators of a kernel are on one stream, between the same two fences.
bool Merge::checkOrder() {
  const Node &first = grouping.nodes[a.nodes.front()];
  const Node &second = grouping.nodes[b.nodes.front()];
  if (first.scope != second.scope)
    return refuse("the parts are in different stream or core scopes");
  return first.fence == second.fence ||
         refuse("a wait or record stands between");
}

bool Merge::checkKinds() {
  if (a.constant != b.constant)
    return refuse(a.constant ? "the first part runs in initialize"
                             : "the second part runs in initialize");
  if (a.isLoops() && b.isLoops())
    return checkBlocks();
  if (a.kind == OpKind::Contraction && b.isLoops())
    return b.hasRows ? refuse("a reduction cannot follow a matrix product in "
                              "one kernel")
                     : true;
  if (a.kind == OpKind::Insert && b.kind == OpKind::Insert)
    return true;
  if (a.isLoops() && !b.isLoops())
    return a.hasRows ? refuse("the reader evaluates pointwise operators only")
                     : true;
  return refuse("this kind of kernel takes no further operators");
}

/// Neighbouring points of a sum over a window share what they read. A kernel
/// that runs row by row cannot use that.
bool Merge::checkBlocks() {
  bool sharesReads = llvm::any_of(a.nodes, [&](int index) {
    const Node &node = grouping.nodes[index];
    return node.kind == OpKind::Pointwise && analysis::readsMany(node.op);
  });
  return a.hasRows || !b.hasRows || !sharesReads ||
         refuse("the points of a window share more than a row does");
}

/// Where taps cross the border of a padded tensor, a kernel cuts what it writes
/// (SplitBorders.h). It finds the taps only through operators that read each
/// other at their own point.
bool Merge::checkTaps() {
  bool tapsBefore = llvm::any_of(
      a.nodes, [&](int made) { return grouping.nodes[made].readsTaps; });
  bool legal = true;
  forEachReadOfProducer(
      [&](const Node &reader, const analysis::DimRead &read, const Node &) {
        legal &= !(reader.readsTaps || tapsBefore) ||
                 !llvm::is_contained(read.dims, int(analysis::partOfDim));
      });
  return legal || refuse("a tap of a window is not at the reader's point");
}

bool Merge::checkSizes() {
  if (a.nodes.size() + b.nodes.size() > maxNodes)
    return refuse("the kernel would be too large");
  if (evaluations() > maxEvaluations)
    return refuse("values would be evaluated too often");
  llvm::SmallDenseSet<Value, 32> inputs;
  size_t stores = 0;
  forEachNode([&](const Node &node) {
    for (const analysis::DimRead &read : node.reads) {
      int from = grouping.producerOf(read.value);
      if (from < 0 || !isInside(grouping.nodes[from].group))
        inputs.insert(read.value);
    }
    stores += isStored(node);
  });
  if (inputs.size() + stores > maxBuffers)
    return refuse("the kernel would have too many buffers");
  return true;
}

/// Counts evaluations for one point of the results. Readers at a value's own
/// point share one evaluation. Each part that is read elsewhere, as through a
/// slice, costs another, and so does every value before it. Chains of parts,
/// such as a scan of halves of halves, grow without bound.
int64_t Merge::evaluations() const {
  SmallVector<int> order(a.nodes);
  llvm::append_range(order, b.nodes);
  llvm::sort(order, std::greater<int>());
  llvm::SmallDenseMap<int, int64_t> shared, apart;
  int64_t total = 0;
  for (int index : order) {
    int64_t own = std::max<int64_t>(shared.lookup(index), 1);
    own = std::min(own + apart.lookup(index), maxEvaluations + 1);
    total += own;
    for (const analysis::DimRead &read : grouping.nodes[index].reads) {
      int from = grouping.producerOf(read.value);
      if (from < 0 || !isInside(grouping.nodes[from].group))
        continue;
      if (llvm::is_contained(read.dims, int(analysis::partOfDim)))
        apart[from] += own;
      else
        shared[from] = std::max(shared.lookup(from), own);
    }
  }
  return total;
}

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

void Merge::forEachNode(llvm::function_ref<void(const Node &)> visit) const {
  for (int index : a.nodes)
    visit(grouping.nodes[index]);
  for (int index : b.nodes)
    visit(grouping.nodes[index]);
}

/// Calls `visit` for each value of the producer that the consumer reads.
void Merge::forEachReadOfProducer(
    llvm::function_ref<void(const Node &reader, const analysis::DimRead &read,
                            const Node &made)>
        visit) const {
  for (int index : b.nodes) {
    const Node &reader = grouping.nodes[index];
    for (const analysis::DimRead &read : reader.reads) {
      int from = grouping.producerOf(read.value);
      if (from >= 0 && grouping.nodes[from].group == producer)
        visit(reader, read, grouping.nodes[from]);
    }
  }
}

bool Merge::isStored(const Node &node) const {
  return llvm::any_of(node.users, [&](int user) {
    return user < 0 || !isInside(grouping.nodes[user].group);
  });
}

bool Merge::link(int consumerAxis, int producerAxis) {
  int &known = toMerged[consumerAxis];
  if (known == producerAxis)
    return true;
  if (known >= 0 || llvm::is_contained(toMerged, producerAxis))
    return refuse("a value is read at two different positions");
  known = producerAxis;
  return true;
}

/// Finds the loops of the consumer that run along loops of the producer.
bool Merge::unifyAxes() {
  toMerged.assign(b.axisCount, -1);
  bool legal = true;
  forEachReadOfProducer(
      [&](const Node &reader, const analysis::DimRead &read, const Node &made) {
        if (!legal || made.loops.resultDims.empty())
          return;
        unsigned result = cast<OpResult>(read.value).getResultNumber();
        for (auto [i, loop] : llvm::enumerate(made.loops.resultDims[result])) {
          int dim = read.dims[i];
          if (loop < 0 || dim < 0 || made.loops.sizes[loop] == 1 ||
              reader.loops.sizes.empty())
            continue;
          legal = legal && link(reader.axes[dim], made.axes[loop]);
        }
      });
  return legal;
}

void Merge::nameRemainingAxes() {
  axisSizes = a.axisSizes;
  for (int axis = 0; axis < b.axisCount; ++axis) {
    if (toMerged[axis] < 0) {
      toMerged[axis] = axisSizes.size();
      axisSizes.push_back(b.axisSizes[axis]);
    } else if (ShapedType::isDynamic(axisSizes[toMerged[axis]])) {
      axisSizes[toMerged[axis]] = b.axisSizes[axis];
    }
  }
}

AxisSet Merge::largeAxes(const Node &node) const {
  AxisSet axes;
  for (auto [loop, axis] : llvm::enumerate(node.axes))
    if (node.loops.sizes[loop] != 1)
      axes.push_back(axisOf(node, axis));
  llvm::sort(axes);
  return axes;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

static bool containsAll(ArrayRef<int> set, ArrayRef<int> subset) {
  return llvm::all_of(subset,
                      [&](int axis) { return llvm::is_contained(set, axis); });
}

bool Merge::mergeRows() {
  hasRows = a.hasRows || b.hasRows;
  AxisSet consumerRows;
  for (int axis : b.rows)
    consumerRows.push_back(toMerged[axis]);
  llvm::sort(consumerRows);
  if (a.hasRows && b.hasRows && a.rows != consumerRows)
    return refuse("the reductions keep different dimensions");
  rows = a.hasRows ? a.rows : consumerRows;
  return true;
}

/// A value that exists once per row may only be read in its own row.
bool Merge::checkRowReads() {
  if (rows.empty() && a.kind != OpKind::Contraction)
    return true;
  bool legal = true;
  forEachNode([&](const Node &reader) {
    for (const analysis::DimRead &read : reader.reads) {
      int from = grouping.producerOf(read.value);
      if (from < 0 || !isInside(grouping.nodes[from].group))
        continue;
      const Node &made = grouping.nodes[from];
      unsigned result = cast<OpResult>(read.value).getResultNumber();
      for (auto [i, loop] : llvm::enumerate(made.loops.resultDims[result])) {
        if (loop < 0 || read.dims[i] != analysis::partOfDim)
          continue;
        int axis = axisOf(made, made.axes[loop]);
        legal &=
            a.kind != OpKind::Contraction && !llvm::is_contained(rows, axis);
      }
    }
  });
  return legal || refuse("a value is read outside of its own row");
}

/// Stored values contain all row axes. Without reductions, all stored values
/// have the same axes.
bool Merge::checkStores() {
  const Node *first = nullptr;
  bool legal = true, same = true, insertOnly = true;
  forEachNode([&](const Node &node) {
    bool reduction = node.kind == OpKind::Reduction;
    if (!reduction && !isStored(node))
      return;
    AxisSet axes = largeAxes(node);
    legal &= containsAll(axes, rows);
    if (reduction)
      return;
    insertOnly &= node.kind == OpKind::Insert && !first;
    same &= !first || largeAxes(*first) == axes;
    first = &node;
  });
  if (b.kind == OpKind::Insert)
    return insertOnly || refuse("the tensor is needed before the insertion");
  if (!legal)
    return refuse("a stored value does not span the rows of the reduction");
  if (!hasRows && !same)
    return refuse("stored values have different shapes");
  return true;
}

//===----------------------------------------------------------------------===//
// Does it pay
//===----------------------------------------------------------------------===//

static int64_t elements(ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= ShapedType::isDynamic(size) ? ir::typicalSize : size;
  return product;
}

/// Costly values must not be evaluated again for each step of a loop that they
/// do not depend on. A kernel evaluates a value of a whole row once per row. At
/// load a few times are cheaper than a value that is kept, or than calls that
/// compute it again.
bool Merge::checkRecomputation() {
  constexpr int64_t timesAtLoad = 4;
  bool legal = true;
  forEachReadOfProducer([&](const Node &reader, const analysis::DimRead &,
                            const Node &made) {
    if (!made.expensive || made.kind == OpKind::Reduction)
      return;
    AxisSet madeAxes = largeAxes(made);
    bool oncePerRow = hasRows && containsAll(rows, madeAxes);
    bool fewTimes = a.constant && elements(reader.loops.sizes) <=
                                      timesAtLoad * elements(made.loops.sizes);
    legal &= oncePerRow || fewTimes || containsAll(madeAxes, largeAxes(reader));
  });
  return legal || refuse("costly work would be repeated");
}

bool Merge::checkParallelism() {
  if (!hasRows)
    return true;
  SmallVector<int64_t> rowSizes;
  for (int axis : rows)
    rowSizes.push_back(sizeOf(axis));
  if (elements(rowSizes) >= minRows)
    return true;
  int64_t largest = 0;
  forEachNode([&](const Node &node) {
    if (isStored(node) && node.kind != OpKind::Reduction)
      largest = std::max(largest, elements(node.loops.sizes));
  });
  return largest <= largeElements ||
         refuse("too few rows to share among workers");
}

//===----------------------------------------------------------------------===//
// Around a matrix product
//===----------------------------------------------------------------------===//

/// All stored values must have the matrix product's own index.
bool Merge::checkEpilogue() {
  const Node &product = grouping.nodes[a.nodes.front()];
  const Node *contraction = &product;
  for (int index : a.nodes)
    if (grouping.nodes[index].kind == OpKind::Contraction)
      contraction = &grouping.nodes[index];
  auto storedAxes = [&](const Node &node) {
    AxisSet axes;
    for (int loop : node.loops.resultDims.front())
      if (loop >= 0 && node.loops.sizes[loop] != 1)
        axes.push_back(axisOf(node, node.axes[loop]));
    return axes;
  };
  AxisSet wanted = storedAxes(*contraction);
  bool legal = true;
  forEachNode([&](const Node &node) {
    if (isStored(node))
      legal &= storedAxes(node) == wanted;
  });
  return legal || refuse("the result is not at the matrix product's index");
}

/// Whether the producer is a gather and the consumer a product or an attention
/// that computes each position once for many elements. In front of an
/// attention, cheap operators may follow the gather.
bool Merge::isPlacedGather() const {
  llvm::SmallDenseSet<Operation *> placed;
  for (int index : b.nodes)
    for (const analysis::Gather &gather : gathersInPlace(grouping.nodes[index]))
      placed.insert(gather.op);
  int64_t gathers = 0, cost = 0;
  for (int index : a.nodes) {
    Operation *op = grouping.nodes[index].op;
    if (placed.contains(op))
      ++gathers;
    else if (b.kind != OpKind::Attention || analysis::isCostlyToRepeat(op))
      return false;
    else
      cost += analysis::operationsOf(op);
  }
  return gathers > 0 && cost <= maxPrologueCost;
}

bool Merge::checkPrologue() {
  if (llvm::any_of(a.nodes,
                   [&](int index) { return isStored(grouping.nodes[index]); }))
    return refuse("the operand is needed elsewhere too");
  if (b.kind == OpKind::Scatter || b.kind == OpKind::Scan ||
      b.kind == OpKind::Fft)
    return true;
  if (!a.constant && llvm::any_of(b.nodes, [&](int index) {
        return readsWindows(grouping.nodes[index].op);
      }))
    return refuse("every tap of a window would compute the operand again");
  bool epilogueOnly = llvm::all_of(a.nodes, [&](int index) {
    return llvm::all_of(grouping.nodes[index].users, [&](int user) {
      return user >= 0 && (grouping.nodes[user].group == producer ||
                           grouping.nodes[user].kind == OpKind::Pointwise);
    });
  });
  if ((epilogueOnly && b.kind == OpKind::Contraction) || isPlacedGather())
    return true;
  if (a.cost > maxPrologueCost || llvm::any_of(a.nodes, [&](int index) {
        return grouping.nodes[index].expensive;
      }))
    return refuse("too costly to repeat for every panel of the operand");
  return true;
}

//===----------------------------------------------------------------------===//
// Commit
//===----------------------------------------------------------------------===//

void Merge::commit() {
  for (int index : b.nodes) {
    Node &node = grouping.nodes[index];
    for (int &axis : node.axes)
      axis = toMerged[axis];
    for (const analysis::DimRead &read : node.reads) {
      int from = grouping.producerOf(read.value);
      if (from >= 0 && isInside(grouping.nodes[from].group) &&
          node.kind != OpKind::Reduction)
        node.expensive |= grouping.nodes[from].expensive &&
                          grouping.nodes[from].kind != OpKind::Reduction;
    }
  }
  for (int index : b.nodes)
    grouping.nodes[index].group = producer;
  if (!b.isLoops() || (b.hasRows && a.isLoops()))
    a.kind = b.kind;
  SmallVector<int> merged;
  std::merge(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(),
             std::back_inserter(merged));
  a.nodes = std::move(merged);
  a.axisSizes = std::move(axisSizes);
  a.axisCount = a.axisSizes.size();
  a.hasRows = hasRows;
  a.rows = std::move(rows);
  a.cost += b.cost;
  b.alive = false;
  b.nodes.clear();
}

} // namespace schedule
} // namespace anabranch
