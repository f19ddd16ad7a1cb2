//===- IntegerRange.h - which integers a tensor may hold --------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_SCHEDULE_WEIGHTS_INTEGERRANGE_H
#define ANABRANCH_SCHEDULE_WEIGHTS_INTEGERRANGE_H

#include "mlir/IR/Value.h"

#include <cstdint>
#include <optional>

namespace anabranch {
namespace schedule {

/// Both ends belong to it. It is empty if `low` is above `high`.
struct IntegerRange {
  int64_t low, high;

  bool isEmpty() const { return low > high; }
  /// The smallest range that has both.
  IntegerRange with(IntegerRange other) const;
  bool contains(IntegerRange other) const {
    return other.isEmpty() || (low <= other.low && other.high <= high);
  }
};

/// All integers of so many bits, at most 64.
IntegerRange allIntegers(unsigned bits, bool isUnsigned);

/// What the description says of the integers of a frozen argument, if it does.
std::optional<IntegerRange> rangeOfArgument(mlir::Value tensor);

/// The elements of a tensor of integers, read as unsigned ones or as signed
/// ones. Masks, shifts, extensions and the views between them are followed.
IntegerRange rangeOfElements(mlir::Value tensor, bool isUnsigned);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_WEIGHTS_INTEGERRANGE_H
