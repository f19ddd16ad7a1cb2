//===- StridedRegion.cpp - bytes at equal distances -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/footprint/StridedRegion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

using Predicate = arith::CmpIPredicate;

static Value compare(LaneBuilder &lanes, Predicate predicate, Value a,
                     Value b) {
  return lanes.make<arith::CmpIOp>(predicate, a, b);
}

StridedRegion RegionBuilder::nothing() {
  Value zero = lanes.index(0);
  return {zero, zero, zero, zero};
}

/// If the condition is known, only its side is emitted.
StridedRegion RegionBuilder::choose(Value condition, Make yes, Make no) {
  if (auto decided = getConstantIntValue(condition))
    return *decided ? yes() : no();
  StridedRegion a = yes(), b = no();
  return {ranges.select(condition, a.offset, b.offset),
          ranges.select(condition, a.width, b.width),
          ranges.select(condition, a.pitch, b.pitch),
          ranges.select(condition, a.count, b.count)};
}

/// The number of bytes from the first to the last.
Value RegionBuilder::span(const StridedRegion &region) {
  Value last = lanes.subIndex(region.count, lanes.index(1));
  return lanes.addIndex(lanes.mulIndex(last, region.pitch), region.width);
}

//===----------------------------------------------------------------------===//
// The elements of a box
//===----------------------------------------------------------------------===//

/// One run in place of all runs of `region`, `count` times.
StridedRegion RegionBuilder::merged(const StridedRegion &region, Value count,
                                    Value stride) {
  return {region.offset, span(region), stride, count};
}

/// Adds a dimension of `count` steps of `stride`. Its stride is no smaller than
/// those of the dimensions before.
void RegionBuilder::addDimension(StridedRegion &region, Value count,
                                 Value stride) {
  if (getConstantIntValue(count) == 1)
    return;
  Value one = lanes.index(1);
  StridedRegion before = region;
  Value extent = lanes.mulIndex(lanes.subIndex(count, one), stride);
  auto dense = [&] {
    return StridedRegion{before.offset, lanes.addIndex(before.width, extent),
                         before.pitch, before.count};
  };
  auto first = [&] {
    return StridedRegion{before.offset, before.width, stride, count};
  };
  auto follows = [&] {
    return StridedRegion{before.offset, before.width, before.pitch,
                         lanes.mulIndex(before.count, count)};
  };
  auto apart = [&] {
    return choose(
        compare(lanes, Predicate::eq, count, one), [&] { return before; },
        [&] { return merged(before, count, stride); });
  };
  auto later = [&] {
    Value next = lanes.mulIndex(before.pitch, before.count);
    return choose(compare(lanes, Predicate::eq, stride, next), follows, apart);
  };
  auto gap = [&] {
    return choose(compare(lanes, Predicate::eq, before.count, one), first,
                  later);
  };
  region =
      choose(compare(lanes, Predicate::sle, stride, before.width), dense, gap);
}

StridedRegion RegionBuilder::of(ArrayRef<IndexRange> dims, Value isEmpty,
                                const Buffer &buffer) {
  Value one = lanes.index(1);
  StridedRegion region{lanes.index(0), one, one, one};
  auto order = llvm::to_vector(
      llvm::reverse(llvm::seq<size_t>(0, buffer.strides.size())));
  // Symbolic strides mostly belong to contiguous memory. For another order the
  // bound is only wider.
  if (llvm::all_of(buffer.strides, [](Value stride) {
        return getConstantIntValue(stride).has_value();
      }))
    llvm::sort(order, [&](size_t a, size_t b) {
      return *getConstantIntValue(buffer.strides[a]) <
             *getConstantIntValue(buffer.strides[b]);
    });
  for (size_t i : order) {
    Value stride = buffer.strides[i];
    region.offset =
        lanes.addIndex(region.offset, lanes.mulIndex(dims[i].low, stride));
    Value count =
        lanes.addIndex(lanes.subIndex(dims[i].high, dims[i].low), one);
    addDimension(region, count, stride);
  }
  Value bytes = lanes.index(elementBytes(buffer.element));
  Type i64 = lanes.builder.getI64Type();
  Value base = lanes.make<arith::IndexCastOp>(
      lanes.builder.getIndexType(),
      lanes.make<LLVM::PtrToIntOp>(i64, buffer.pointer));
  return {lanes.addIndex(base, lanes.mulIndex(region.offset, bytes)),
          ranges.select(isEmpty, lanes.index(0),
                        lanes.mulIndex(region.width, bytes)),
          lanes.mulIndex(region.pitch, bytes), region.count};
}

//===----------------------------------------------------------------------===//
// Both of two
//===----------------------------------------------------------------------===//

/// One run over both.
StridedRegion RegionBuilder::hull(Value a, Value endA, Value b, Value endB) {
  Value low = lanes.minIndex(a, b);
  Value width = lanes.subIndex(lanes.maxIndex(endA, endB), low);
  return {low, width, width, lanes.index(1)};
}

/// The two regions hold different columns of the same rows.
StridedRegion RegionBuilder::joinColumns(const StridedRegion &a,
                                         const StridedRegion &b, Value &fits) {
  StridedRegion region = hull(a.offset, lanes.addIndex(a.offset, a.width),
                              b.offset, lanes.addIndex(b.offset, b.width));
  Value isAlike = lanes.make<arith::AndIOp>(
      compare(lanes, Predicate::eq, a.pitch, b.pitch),
      compare(lanes, Predicate::eq, a.count, b.count));
  fits = lanes.make<arith::AndIOp>(
      isAlike, compare(lanes, Predicate::sle, region.width, a.pitch));
  return {region.offset, region.width, a.pitch, a.count};
}

/// `b` is one run that follows the runs of `a`, or a second run at any distance
/// from a single one.
StridedRegion RegionBuilder::appendRun(const StridedRegion &a,
                                       const StridedRegion &b, Value &fits) {
  Value one = lanes.index(1);
  Value distance = lanes.subIndex(b.offset, a.offset);
  Value isSecond = compare(lanes, Predicate::eq, a.count, one);
  Value pitch = ranges.select(isSecond, distance, a.pitch);
  Value width = lanes.maxIndex(a.width, b.width);
  Value isNext =
      compare(lanes, Predicate::eq, distance, lanes.mulIndex(pitch, a.count));
  Value isSingle = compare(lanes, Predicate::eq, b.count, one);
  fits =
      lanes.make<arith::AndIOp>(lanes.make<arith::AndIOp>(isNext, isSingle),
                                compare(lanes, Predicate::sgt, pitch, width));
  return {a.offset, width, pitch, lanes.addIndex(a.count, one)};
}

StridedRegion RegionBuilder::unite(const StridedRegion &a,
                                   const StridedRegion &b) {
  Value zero = lanes.index(0), isBeside, isLonger;
  StridedRegion wide = joinColumns(a, b, isBeside),
                more = appendRun(a, b, isLonger);
  StridedRegion all = hull(a.offset, lanes.addIndex(a.offset, span(a)),
                           b.offset, lanes.addIndex(b.offset, span(b)));
  auto both = [&] {
    return choose(
        isBeside, [&] { return wide; },
        [&] {
          return choose(isLonger, [&] { return more; }, [&] { return all; });
        });
  };
  auto some = [&] {
    return choose(
        compare(lanes, Predicate::eq, b.width, zero), [&] { return a; }, both);
  };
  return choose(
      compare(lanes, Predicate::eq, a.width, zero), [&] { return b; }, some);
}

} // namespace kernels
} // namespace anabranch
