//===- RangeLists.cpp - which updates each tile of a scatter has ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/scatters/RangeLists.h"

#include "kernels/nests/ScatterDims.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

static ir::ScatterOp scatterOf(const NestGroup &group) {
  return cast<ir::ScatterOp>(group.nests.front()->op);
}

static unsigned rankOf(ir::ScatterOp scatter) {
  return cast<RankedTensorType>(scatter.getUpdates().getType()).getRank();
}

/// The dimensions of the updates that are no other dimension of the result than
/// the one that is cut into ranges.
static SmallVector<unsigned> numberedDims(const NestGroup &group) {
  ir::ScatterOp scatter = scatterOf(group);
  auto along = updatedAlong(scatter);
  along[group.rangedLoop].reset();
  SmallVector<unsigned> dims;
  for (unsigned dim = 0, rank = rankOf(scatter); dim < rank; ++dim)
    if (!llvm::is_contained(along, std::optional(dim)))
      dims.push_back(dim);
  return dims;
}

static Value product(LaneBuilder &lanes, ArrayRef<Value> sizes) {
  Value count = lanes.index(1);
  for (Value size : sizes)
    count = lanes.mulIndex(count, size);
  return count;
}

static SmallVector<Value> sizesOf(KernelFunction &function,
                                  const NestGroup &group) {
  SmallVector<Value> sizes;
  for (unsigned dim : numberedDims(group))
    sizes.push_back(function.dim(scatterOf(group).getUpdates(), dim));
  return sizes;
}

/// The bytes of so many index values, in whole lines.
static Value bytesOf(KernelFunction &function, Value count) {
  LaneBuilder &lanes = function.lanes;
  int64_t line = function.target.model.lineBytes;
  Value lines =
      lanes.ceilDivIndex(count, lanes.index(line / int64_t(sizeof(int64_t))));
  return lanes.mulIndex(lines, lanes.index(line));
}

/// Rows have lists if the ends of these are at most this part of the second
/// cache, which updates and rows need too.
static constexpr int64_t endsOfCache = 4;
/// And if they have an update each, on average over so many of them. Few
/// updates do not pay for a look at each row.
static constexpr int64_t rowsPerUpdate = 2;

/// A list has the updates of two to this power of rows.
static Value rowsOfListLog(KernelFunction &function, const TileGrid &grid,
                           Value count) {
  LaneBuilder &lanes = function.lanes;
  int64_t mostLists =
      function.target.model.l2Bytes / endsOfCache / int64_t(sizeof(int64_t));
  Value most = lanes.minIndex(lanes.mulIndex(count, lanes.index(rowsPerUpdate)),
                              lanes.index(mostLists));
  Value areFew = lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ule,
                                           grid.outerSize, most);
  return lanes.make<arith::SelectOp>(areFew, lanes.index(0),
                                     grid.outerPerTileLog);
}

/// The lists that have an update, or could have one.
static Value listsOf(LaneBuilder &lanes, const TileGrid &grid, Value rowsLog) {
  Value rows = lanes.make<arith::ShLIOp>(lanes.index(1), rowsLog);
  Value last =
      lanes.addIndex(grid.outerSize, lanes.subIndex(rows, lanes.index(1)));
  return lanes.make<arith::ShRUIOp>(last, rowsLog);
}

static Value isOne(LaneBuilder &lanes, Value value) {
  return lanes.make<arith::CmpIOp>(arith::CmpIPredicate::eq, value,
                                   lanes.index(1));
}

Value RangeLists::bytes(KernelFunction &function, const NestGroup &group) {
  LaneBuilder &lanes = function.lanes;
  Value none = lanes.index(0);
  if (group.rangedLoop < 0)
    return none;
  TileGrid grid = makeGrid(function, group);
  Value count = product(lanes, sizesOf(function, group));
  Value lists = listsOf(lanes, grid, rowsOfListLog(function, grid, count));
  Value ends = lanes.addIndex(lists, lanes.index(1));
  Value all = lanes.addIndex(bytesOf(function, ends), bytesOf(function, count));
  return lanes.make<arith::SelectOp>(isOne(lanes, grid.tiles), none, all);
}

RangeLists::RangeLists(KernelFunction &function, const NestGroup &group,
                       Value memory)
    : lanes(function.lanes), group(group), scatter(scatterOf(group)),
      grid(makeGrid(function, group)), dims(numberedDims(group)),
      sizes(sizesOf(function, group)), count(product(lanes, sizes)),
      rowsLog(rowsOfListLog(function, grid, count)) {
  Type element = lanes.builder.getIndexType();
  Value lists = lanes.addIndex(listsOf(lanes, grid, rowsLog), lanes.index(1));
  Value afterEnds = addBytes(lanes, memory, bytesOf(function, lists));
  ends = {memory, element, {lanes.index(1)}};
  numbers = {afterEnds, element, {lanes.index(1)}};
}

Value RangeLists::get(const Buffer &buffer, Value at) const {
  return load(lanes, buffer, Lanes::uniform(at)).value;
}

void RangeLists::set(const Buffer &buffer, Value at, Value value) const {
  store(lanes, buffer, Lanes::uniform(at), Lanes::uniform(value));
}

Value RangeLists::hasLists() const {
  return lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ugt, grid.tiles,
                                   lanes.index(1));
}

void RangeLists::setPoint(Value number, MutableArrayRef<Lanes> point) const {
  Lanes rest = Lanes::uniform(number);
  for (size_t at = dims.size(); at-- > 1;) {
    auto [quotient, remainder] = lanes.divRem(rest, sizes[at]);
    point[dims[at]] = remainder;
    rest = quotient;
  }
  if (!dims.empty())
    point[dims.front()] = rest;
}

Value RangeLists::areOfRows() const {
  Value single = lanes.make<arith::CmpIOp>(arith::CmpIPredicate::eq, rowsLog,
                                           lanes.index(0));
  return lanes.make<arith::AndIOp>(hasLists(), single);
}

Value RangeLists::listOf(Value row) const {
  return lanes.make<arith::ShRUIOp>(row, rowsLog);
}

/// The updates from the first to the last list.
UpdateRange RangeLists::ofLists(Value first, Value last) const {
  return {get(ends, first), get(ends, lanes.addIndex(last, lanes.index(1)))};
}

Value UpdateRange::hasAny(LaneBuilder &lanes) const {
  return lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ne, first, last);
}

/// Emits the body for each update, with its list.
void RangeLists::forAll(Evaluator &evaluator,
                        llvm::function_ref<void(Value, Value)> body) const {
  lanes.loop(lanes.index(0), count, 1, [&](Value number) {
    SmallVector<Lanes> point(rankOf(scatter), lanes.indexLanes(0));
    setPoint(number, point);
    Lanes row = positionOf(evaluator, scatter, point)[group.rangedLoop];
    body(number, listOf(lanes.vector(row)));
  });
}

void RangeLists::sort(Evaluator &evaluator) const {
  Value zero = lanes.index(0), one = lanes.index(1);
  Value lists = listsOf(lanes, grid, rowsLog);
  // The end of a list is behind that of the list before it.
  auto slot = [&](Value list) { return lanes.addIndex(list, one); };
  lanes.ifThen(hasLists(), [&] {
    lanes.loop(zero, slot(lists), 1, [&](Value at) { set(ends, at, zero); });
    forAll(evaluator, [&](Value, Value list) {
      set(ends, slot(list), lanes.addIndex(get(ends, slot(list)), one));
    });
    // The ends become begins, which the numbers then move to the ends.
    Type index = lanes.builder.getIndexType();
    lanes.loop(zero, lists, 1, lanes.i64(0), [&](Value at, ValueRange sum) {
      Value before = lanes.make<arith::IndexCastOp>(index, sum[0]);
      Value after = lanes.addIndex(before, get(ends, slot(at)));
      set(ends, slot(at), before);
      return SmallVector<Value>{lanes.toI64(after)};
    });
    forAll(evaluator, [&](Value number, Value list) {
      Value at = get(ends, slot(list));
      set(numbers, at, number);
      set(ends, slot(list), lanes.addIndex(at, one));
    });
  });
}

/// What the lists say; without lists, `plain`.
Value RangeLists::listed(Value plain, llvm::function_ref<Value()> found) const {
  // Control flow has values of LLVM's types only.
  auto of = [&](Value value) { return SmallVector<Value>{lanes.toI64(value)}; };
  Value either = lanes.ifElse(
      hasLists(), lanes.builder.getI64Type(), [&] { return of(found()); },
      [&] { return of(plain); })[0];
  return lanes.make<arith::IndexCastOp>(lanes.builder.getIndexType(), either);
}

void RangeLists::forEach(const TilePart &part, MutableArrayRef<Lanes> point,
                         llvm::function_ref<void()> body) const {
  auto own = [&] {
    Value lastRow = lanes.subIndex(part.lastOuter, lanes.index(1));
    return ofLists(listOf(part.firstOuter), listOf(lastRow));
  };
  Value first = listed(lanes.index(0), [&] { return own().first; });
  Value last = listed(count, [&] { return own().last; });
  lanes.loop(first, last, 1, [&](Value at) {
    setPoint(listed(at, [&] { return get(numbers, at); }), point);
    body();
  });
}

SmallVector<Lanes> positionOf(Evaluator &evaluator, ir::ScatterOp scatter,
                              ArrayRef<Lanes> point) {
  SmallVector<Lanes> arguments(point);
  Block &body = scatter.getBody().front();
  // The position depends on neither the current element nor the update.
  for (BlockArgument value : body.getArguments().take_back(2))
    arguments.push_back(evaluator.zero(value.getType()));
  SmallVector<Lanes> position = evaluator.evaluateRegion(body, arguments);
  position.pop_back();
  return position;
}

} // namespace kernels
} // namespace anabranch
