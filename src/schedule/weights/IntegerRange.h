//===- IntegerRange.h - which integers a tensor may hold --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_WEIGHTS_INTEGERRANGE_H
#define ANABRANCH_SCHEDULE_WEIGHTS_INTEGERRANGE_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Value.h"

#include <cstdint>
#include <optional>

namespace anabranch {
namespace schedule {

/// A range that includes both ends. It is empty if `low` is above `high`.
struct IntegerRange {
  int64_t low, high;

  bool isEmpty() const { return low > high; }
  /// The smallest range that includes both.
  IntegerRange with(IntegerRange other) const;
  bool contains(IntegerRange other) const {
    return other.isEmpty() || (low <= other.low && other.high <= high);
  }
};

/// All integers of this many bits, at most 64.
IntegerRange allIntegers(unsigned bits, bool isUnsigned);

/// The range that the graph description gives for the integers of a frozen
/// argument, if any.
std::optional<IntegerRange> rangeOfArgument(mlir::Value tensor);

/// The range of the elements of an integer tensor, read as unsigned or as
/// signed. The function looks through masks, shifts, sums, extensions and the
/// views between them.
IntegerRange rangeOfElements(mlir::Value tensor, bool isUnsigned);

/// Whether a sum or a difference in the body of `op` is that of the integers:
/// the ranges of its operands exclude that it wraps around.
bool neverOverflows(mlir::linalg::GenericOp op, mlir::Value sum,
                    bool isUnsigned);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_WEIGHTS_INTEGERRANGE_H
