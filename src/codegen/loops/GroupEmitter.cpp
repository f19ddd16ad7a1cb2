//===- GroupEmitter.cpp - rows, loops and bundles of a group --------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/loops/GroupEmitter.h"

#include "codegen/emit/Destinations.h"
#include "codegen/loops/Rows.h"
#include "ir/Anabranch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

GroupEmitter::GroupEmitter(KernelModel &model, const Group &group,
                           Evaluator &evaluator, Value scratchPointer)
    : model(model), group(group), evaluator(evaluator), frame(evaluator.frame),
      lanes(evaluator.lanes), scratchPointer(scratchPointer) {}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void GroupEmitter::emitTile(Value tile) {
  grid = makeGrid(frame, group);
  scratch = planScratch(frame, group);
  prepareBuffers();
  rowIndex.assign(group.rowCount, lanes.indexLanes(0));
  emitRows(partOf(lanes, grid, tile));
}

void GroupEmitter::prepareBuffers() {
  for (Nest *nest : group.nests)
    for (Destination &destination : nest->destinations)
      targets[nest].push_back(destinationBuffer(frame, destination));
  Type pointer = LLVM::LLVMPointerType::get(lanes.builder.getContext());
  for (ScratchPart &part : scratch.parts) {
    Nest *nest = part.nest;
    Buffer buffer;
    buffer.element = getElementTypeOrSelf(part.value.getType());
    buffer.pointer = lanes.make<LLVM::GEPOp>(
        pointer, lanes.builder.getI8Type(), scratchPointer,
        ArrayRef<LLVM::GEPArg>{lanes.toI64(part.offset)});
    // Rows have no stride, since only one is there at a time; the lanes of a
    // row of lanes are neighbours, in a dimension of their own.
    int64_t rank = cast<RankedTensorType>(nest->value.getType()).getRank();
    buffer.strides.assign(rank + 1, lanes.index(0));
    buffer.strides[rank] = lanes.index(1);
    Value stride = lanes.index(group.laneRow >= 0 ? group.width : 1);
    for (unsigned dim : llvm::reverse(innerDims(*nest))) {
      buffer.strides[dim] = stride;
      stride = lanes.mulIndex(stride, frame.dim(nest->value, dim));
    }
    kept[part.value] = buffer;
  }
}

void GroupEmitter::setRow(const Row &row, Lanes index) {
  // Rows that run as one: their last carries the position, which addresses
  // further than its own size, and the others stay at zero.
  for (unsigned part : row.rows)
    rowIndex[part] = lanes.indexLanes(0);
  rowIndex[row.rows.back()] = index;
}

void GroupEmitter::emitRows(const TilePart &part) {
  APInt one;
  bool single = matchPattern(grid.outerRows, m_ConstantInt(&one)) && one == 1;
  if (single) {
    if (group.laneRow >= 0)
      return emitLaneRow(part);
    LaneBuilder::Scope scope(lanes);
    return emitRow();
  }
  lanes.loop(part.firstRow, part.lastRow, 1, [&](Value number) {
    Lanes rest = Lanes::uniform(number);
    int outermost = group.laneRow == 0 ? 1 : 0;
    for (int row = group.rows.size(); row-- > 0;) {
      if (row == group.laneRow)
        continue;
      if (row == outermost) {
        setRow(group.rows[row], rest);
        break;
      }
      auto [quotient, remainder] = lanes.divRem(rest, grid.rowSizes[row]);
      setRow(group.rows[row], remainder);
      rest = quotient;
    }
    if (group.laneRow >= 0)
      emitLaneRow(part);
    else
      emitRow();
  });
}

void GroupEmitter::emitLaneRow(const TilePart &part) {
  APInt size;
  bool exact = matchPattern(grid.laneSize, m_ConstantInt(&size)) &&
               size.getSExtValue() % group.width == 0;
  const Row &row = group.rows[group.laneRow];
  vectorLoop(part.firstLane, part.lastLane, exact, operations() > longBody, {},
             [&](Lanes index, ValueRange) {
               setRow(row, index);
               if (group.blockRow >= 0)
                 emitBlock();
               else
                 emitRow();
               return Values();
             });
}

int64_t GroupEmitter::operations() const {
  int64_t total = 0;
  for (Nest *nest : group.nests)
    total += nest->reads.operations;
  return total;
}

int64_t GroupEmitter::operations(const Bundle &bundle) {
  int64_t total = 0;
  for (Nest *nest : bundle.members) {
    total += nest->reads.operations;
    for (Nest *keep : nest->fills)
      total += keep->reads.operations;
  }
  return total;
}

void GroupEmitter::emitRow() {
  for (size_t i = 0; i < group.nests.size();) {
    unsigned level = group.nests[i]->level;
    SmallVector<Nest *> nests;
    for (; i < group.nests.size() && group.nests[i]->level == level; ++i)
      if (!group.nests[i]->filledBy)
        nests.push_back(group.nests[i]);
    std::vector<Bundle> made = bundles(nests);
    for (Bundle &bundle : made)
      emitBundle(bundle);
  }
}

//===----------------------------------------------------------------------===//
// Bundles
//===----------------------------------------------------------------------===//

bool GroupEmitter::canBundle(const Nest &a, const Nest &b) {
  auto eligible = [](const Nest &nest) {
    if (nest.kind == Nest::Kind::Write || nest.kind == Nest::Kind::Keep)
      return true;
    return nest.kind == Nest::Kind::Reduce &&
           llvm::none_of(nest.innerLoops(), [&](unsigned loop) {
             return nest.loops[loop].parallel;
           });
  };
  SmallVector<unsigned> left = a.innerLoops(), right = b.innerLoops();
  if (!eligible(a) || !eligible(b) || left.size() != right.size())
    return false;
  for (auto [i, j] : llvm::zip(left, right))
    if (!model.sizes->equal(a.loops[i].size, b.loops[j].size))
      return false;
  // Lanes that run along a reduction need every reduction to be splittable.
  auto lanesA = laneLoopOf(model, group, a),
       lanesB = laneLoopOf(model, group, b);
  if (lanesA.has_value() != lanesB.has_value())
    return false;
  return !lanesA || llvm::find(left, *lanesA) - left.begin() ==
                        llvm::find(right, *lanesB) - right.begin();
}

std::vector<GroupEmitter::Bundle>
GroupEmitter::bundles(ArrayRef<Nest *> nests) {
  std::vector<Bundle> result;
  for (Nest *nest : nests) {
    Bundle *home = nullptr;
    for (Bundle &bundle : result)
      if (canBundle(*bundle.members[0], *nest))
        home = &bundle;
    if (!home) {
      result.emplace_back();
      home = &result.back();
    }
    home->members.push_back(nest);
  }
  for (Bundle &bundle : result)
    makeLoops(bundle);
  return result;
}

void GroupEmitter::makeLoops(Bundle &bundle) {
  Nest &leader = *bundle.members[0];
  auto vectorized = laneLoopOf(model, group, leader);
  SmallVector<unsigned> inner = leader.innerLoops();
  SmallVector<BundleLoop> made;
  for (size_t position = 0; position < inner.size(); ++position) {
    BundleLoop loop;
    loop.parallel = leader.loops[inner[position]].parallel;
    loop.hasLanes = vectorized && *vectorized == inner[position];
    for (Nest *member : bundle.members)
      loop.loops.push_back({member->innerLoops()[position]});
    bool joins = !made.empty() && made.back().parallel == loop.parallel &&
                 !made.back().hasLanes;
    for (size_t m = 0; joins && m < bundle.members.size(); ++m)
      joins = canJoin(model, *bundle.members[m], made.back().loops[m].back(),
                      loop.loops[m].front());
    if (joins && bundle.members[0]->kind != Nest::Kind::Scan) {
      for (size_t m = 0; m < bundle.members.size(); ++m)
        made.back().loops[m].append(loop.loops[m]);
      made.back().hasLanes = loop.hasLanes;
    } else {
      made.push_back(loop);
    }
  }
  bool alone =
      leader.kind == Nest::Kind::Reduce || leader.kind == Nest::Kind::Scan;
  for (BundleLoop &loop : made)
    (alone && loop.parallel ? bundle.outer : bundle.inner).push_back(loop);
  for (auto *loops : {&bundle.outer, &bundle.inner}) {
    auto found = llvm::find_if(
        *loops, [](const BundleLoop &loop) { return loop.hasLanes; });
    if (found != loops->end())
      std::rotate(found, found + 1, loops->end());
  }
  bundle.splitsLanes = !bundle.inner.empty() && bundle.inner.back().hasLanes &&
                       leader.kind == Nest::Kind::Reduce;
  for (Nest *member : bundle.members)
    bundle.splitsLanes |= !bundle.inner.empty() &&
                          bundle.inner.back().hasLanes &&
                          member->kind == Nest::Kind::Reduce;
}

SmallVector<GroupEmitter::Point> GroupEmitter::rowPoints(const Bundle &bundle) {
  SmallVector<Point> points;
  for (Nest *member : bundle.members) {
    Point &point = points.emplace_back();
    for (Nest::Loop &loop : member->loops)
      point.push_back(loop.row < 0 ? lanes.indexLanes(0) : rowIndex[loop.row]);
  }
  return points;
}

Value GroupEmitter::tripCount(const Bundle &bundle, const BundleLoop &loop) {
  Value count = lanes.index(1);
  for (unsigned part : loop.loops[0]) {
    DimOf size = bundle.members[0]->loops[part].size;
    count = lanes.mulIndex(count, frame.dim(size.tensor, size.dimension));
  }
  return count;
}

void GroupEmitter::setLoop(const BundleLoop &loop,
                           MutableArrayRef<Point> points, Lanes index) {
  for (auto [point, parts] : llvm::zip(points, loop.loops)) {
    for (unsigned part : parts)
      point[part] = lanes.indexLanes(0);
    point[parts.back()] = index;
  }
}

void GroupEmitter::emitBundle(Bundle &bundle) {
  if (bundle.members[0]->kind == Nest::Kind::Scatter) {
    emitScatter(*bundle.members[0]);
    return bindResult(*bundle.members[0]);
  }
  SmallVector<Point> points = rowPoints(bundle);
  emitOuter(bundle, points, 0);
  for (Nest *member : bundle.members) {
    bindResult(*member);
    for (Nest *keep : member->fills)
      bindResult(*keep);
  }
}

void GroupEmitter::emitOuter(Bundle &bundle, MutableArrayRef<Point> points,
                             size_t depth) {
  if (depth == bundle.outer.size()) {
    Values carried = initial(bundle, points);
    carried = emitInner(bundle, points, 0, carried);
    finish(bundle, points, carried);
    return;
  }
  const BundleLoop &loop = bundle.outer[depth];
  Value count = tripCount(bundle, loop);
  if (!loop.hasLanes) {
    lanes.loop(lanes.index(0), count, 1, [&](Value iv) {
      setLoop(loop, points, Lanes::uniform(iv));
      emitOuter(bundle, points, depth + 1);
    });
    return;
  }
  APInt size;
  bool exact = matchPattern(count, m_ConstantInt(&size)) &&
               size.getSExtValue() % group.width == 0;
  vectorLoop(lanes.index(0), count, exact, operations(bundle) > longBody, {},
             [&](Lanes index, ValueRange) {
               setLoop(loop, points, index);
               emitOuter(bundle, points, depth + 1);
               return Values();
             });
}

//===----------------------------------------------------------------------===//
// Vector loops
//===----------------------------------------------------------------------===//

GroupEmitter::Values GroupEmitter::vectorLoop(Value low, Value high, bool exact,
                                              bool heavy, ValueRange carried,
                                              VectorBody body) {
  int64_t width = group.width;
  auto run = [&](Value iv, ValueRange values, Value mask) {
    LaneBuilder::Shape shape(lanes, width, mask);
    if (width == 1)
      return body(Lanes::uniform(iv), values);
    return body(Lanes::linear(iv, 1, width), values);
  };
  auto masked = [&](Value iv, ValueRange values) {
    Value mask;
    {
      LaneBuilder::Shape shape(lanes, width, Value());
      mask = lanes.prefixMask(lanes.subIndex(high, iv));
    }
    return run(iv, values, mask);
  };
  auto full = [&](Value iv, ValueRange values) {
    return run(iv, values, Value());
  };
  if (exact || width == 1)
    return lanes.loop(low, high, width, carried, full);
  // A second copy of a long body costs more compile time than a masked loop
  // costs run time.
  if (heavy)
    return lanes.loop(low, high, width, carried, masked);
  Value whole = lanes.mulIndex(
      lanes.divIndex(lanes.subIndex(high, low), lanes.index(width)),
      lanes.index(width));
  Value middle = lanes.addIndex(low, whole);
  Values results = lanes.loop(low, middle, width, carried, full);
  Value rest =
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt, middle, high);
  SmallVector<Type> types;
  for (Value value : results)
    types.push_back(value.getType());
  return lanes.ifElse(
      rest, types, [&] { return masked(middle, results); },
      types.empty() ? LaneBuilder::Side() : [&] { return results; });
}

} // namespace codegen
} // namespace anabranch
