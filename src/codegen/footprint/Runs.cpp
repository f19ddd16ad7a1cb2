//===- Runs.cpp - bytes at equal distances --------------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/footprint/Runs.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

using Predicate = arith::CmpIPredicate;

static std::optional<int64_t> known(Value value) {
  APInt number;
  if (matchPattern(value, m_ConstantInt(&number)))
    return number.getSExtValue();
  return std::nullopt;
}

static Value compare(LaneBuilder &lanes, Predicate predicate, Value a,
                     Value b) {
  return lanes.make<arith::CmpIOp>(predicate, a, b);
}

Runs RunBuilder::nothing() {
  Value zero = lanes.index(0);
  return {zero, zero, zero, zero};
}

/// Only what is needed is made if the condition is known.
Runs RunBuilder::choose(Value condition, Make yes, Make no) {
  if (auto decided = known(condition))
    return *decided ? yes() : no();
  Runs a = yes(), b = no();
  return {ranges.select(condition, a.offset, b.offset),
          ranges.select(condition, a.width, b.width),
          ranges.select(condition, a.pitch, b.pitch),
          ranges.select(condition, a.count, b.count)};
}

/// The bytes from the first to the last.
Value RunBuilder::span(const Runs &runs) {
  Value last = lanes.subIndex(runs.count, lanes.index(1));
  return lanes.addIndex(lanes.mulIndex(last, runs.pitch), runs.width);
}

//===----------------------------------------------------------------------===//
// The elements of a box
//===----------------------------------------------------------------------===//

/// `count` runs as long as all of `runs`.
Runs RunBuilder::merged(const Runs &runs, Value count, Value stride) {
  return {runs.offset, span(runs), stride, count};
}

/// `count` steps of `stride` in one more dimension, whose stride is no smaller
/// than those before it.
void RunBuilder::addDimension(Runs &runs, Value count, Value stride) {
  if (known(count) == 1)
    return;
  Value one = lanes.index(1);
  Runs before = runs;
  Value extent = lanes.mulIndex(lanes.subIndex(count, one), stride);
  auto dense = [&] {
    return Runs{before.offset, lanes.addIndex(before.width, extent),
                before.pitch, before.count};
  };
  auto first = [&] { return Runs{before.offset, before.width, stride, count}; };
  auto follows = [&] {
    return Runs{before.offset, before.width, before.pitch,
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
  runs =
      choose(compare(lanes, Predicate::sle, stride, before.width), dense, gap);
}

Runs RunBuilder::of(ArrayRef<IndexRange> dims, Value isEmpty,
                    const Buffer &buffer) {
  Value one = lanes.index(1);
  Runs runs{lanes.index(0), one, one, one};
  auto order = llvm::to_vector(
      llvm::reverse(llvm::seq<size_t>(0, buffer.strides.size())));
  // Symbolic strides mostly belong to contiguous memory; in another order the
  // bound is only wider.
  if (llvm::all_of(buffer.strides,
                   [](Value stride) { return known(stride).has_value(); }))
    llvm::sort(order, [&](size_t a, size_t b) {
      return *known(buffer.strides[a]) < *known(buffer.strides[b]);
    });
  for (size_t i : order) {
    Value stride = buffer.strides[i];
    runs.offset =
        lanes.addIndex(runs.offset, lanes.mulIndex(dims[i].low, stride));
    Value count =
        lanes.addIndex(lanes.subIndex(dims[i].high, dims[i].low), one);
    addDimension(runs, count, stride);
  }
  Value bytes = lanes.index(elementBytes(buffer.element));
  Type i64 = lanes.builder.getI64Type();
  Value base = lanes.make<arith::IndexCastOp>(
      lanes.builder.getIndexType(),
      lanes.make<LLVM::PtrToIntOp>(i64, buffer.pointer));
  return {
      lanes.addIndex(base, lanes.mulIndex(runs.offset, bytes)),
      ranges.select(isEmpty, lanes.index(0), lanes.mulIndex(runs.width, bytes)),
      lanes.mulIndex(runs.pitch, bytes), runs.count};
}

//===----------------------------------------------------------------------===//
// Both of two
//===----------------------------------------------------------------------===//

/// One run over all.
Runs RunBuilder::one(Value a, Value endA, Value b, Value endB) {
  Value low = lanes.minIndex(a, b);
  Value width = lanes.subIndex(lanes.maxIndex(endA, endB), low);
  return {low, width, width, lanes.index(1)};
}

/// Pieces of the same rows.
Runs RunBuilder::beside(const Runs &a, const Runs &b, Value &fits) {
  Runs runs = one(a.offset, lanes.addIndex(a.offset, a.width), b.offset,
                  lanes.addIndex(b.offset, b.width));
  Value isAlike = lanes.make<arith::AndIOp>(
      compare(lanes, Predicate::eq, a.pitch, b.pitch),
      compare(lanes, Predicate::eq, a.count, b.count));
  fits = lanes.make<arith::AndIOp>(
      isAlike, compare(lanes, Predicate::sle, runs.width, a.pitch));
  return {runs.offset, runs.width, a.pitch, a.count};
}

/// One run more after those of `a`, or a second one at a distance of its own.
Runs RunBuilder::longer(const Runs &a, const Runs &b, Value &fits) {
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

Runs RunBuilder::unite(const Runs &a, const Runs &b) {
  Value zero = lanes.index(0), isBeside, isLonger;
  Runs wide = beside(a, b, isBeside), more = longer(a, b, isLonger);
  Runs all = one(a.offset, lanes.addIndex(a.offset, span(a)), b.offset,
                 lanes.addIndex(b.offset, span(b)));
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

} // namespace codegen
} // namespace anabranch
