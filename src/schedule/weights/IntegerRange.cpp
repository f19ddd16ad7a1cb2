//===- IntegerRange.cpp - which integers a tensor may hold ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/weights/IntegerRange.h"

#include "ir/SteadyInput.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

#include <algorithm>
#include <limits>

using namespace mlir;

namespace anabranch {
namespace schedule {

IntegerRange IntegerRange::with(IntegerRange other) const {
  if (isEmpty())
    return other;
  if (other.isEmpty())
    return *this;
  return {std::min(low, other.low), std::max(high, other.high)};
}

IntegerRange allIntegers(unsigned bits, bool isUnsigned) {
  constexpr auto most = std::numeric_limits<int64_t>::max();
  if (bits >= 64)
    return {isUnsigned ? 0 : std::numeric_limits<int64_t>::min(), most};
  int64_t count = int64_t(1) << (bits - (isUnsigned ? 0 : 1));
  return {isUnsigned ? 0 : -count, count - 1};
}

namespace {

constexpr IntegerRange none{1, 0};

unsigned bitsOf(Value value) {
  return getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth();
}

std::optional<int64_t> constantOf(Value value) {
  APInt number;
  if (matchPattern(value, m_ConstantInt(&number)))
    return number.getSExtValue();
  return std::nullopt;
}

/// Finds the range of a scalar in the body of a generic.
class BodyRanges {
public:
  explicit BodyRanges(linalg::GenericOp op) : op(op) {}

  IntegerRange of(Value value, bool isUnsigned) {
    return ofExact(value, isUnsigned)
        .value_or(allIntegers(bitsOf(value), isUnsigned));
  }

  /// None if an operation that makes the value may overflow.
  std::optional<IntegerRange> ofExact(Value value, bool isUnsigned) {
    std::optional<IntegerRange> found = find(value, isUnsigned);
    if (found && !allIntegers(bitsOf(value), isUnsigned).contains(*found))
      found = std::nullopt;
    return found;
  }

private:
  linalg::GenericOp op;

  /// A range that holds `value` if no operation before it overflows.
  std::optional<IntegerRange> find(Value value, bool isUnsigned) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (argument.getOwner() != op.getBody())
        return std::nullopt;
      return rangeOfElements(op->getOperand(argument.getArgNumber()),
                             isUnsigned);
    }
    if (auto number = constantOf(value))
      return IntegerRange{*number, *number};
    Operation *made = value.getDefiningOp();
    if (isa<arith::ExtSIOp, arith::TruncIOp>(made))
      return of(made->getOperand(0), /*isUnsigned=*/false);
    if (isa<arith::ExtUIOp>(made))
      return of(made->getOperand(0), /*isUnsigned=*/true);
    if (auto extract = dyn_cast<tensor::ExtractOp>(made))
      return rangeOfElements(extract.getTensor(), isUnsigned);
    if (isa<arith::SelectOp>(made))
      return of(made->getOperand(1), isUnsigned)
          .with(of(made->getOperand(2), isUnsigned));
    if (isa<arith::AddIOp, arith::SubIOp>(made))
      return ofSum(made, isUnsigned);
    if (isa<arith::AndIOp, arith::ShRUIOp, arith::ShRSIOp>(made))
      return withConstant(made, isUnsigned);
    return std::nullopt;
  }

  std::optional<IntegerRange> ofSum(Operation *made, bool isUnsigned) {
    Value left = made->getOperand(0), right = made->getOperand(1);
    if (bitsOf(left) > 32)
      return std::nullopt;
    // A constant is not cut to the range of its type: unsigned numbers add a
    // negative one to subtract.
    auto number = constantOf(right);
    IntegerRange a = of(left, isUnsigned);
    IntegerRange b =
        number ? IntegerRange{*number, *number} : of(right, isUnsigned);
    if (a.isEmpty() || b.isEmpty())
      return none;
    if (isa<arith::AddIOp>(made))
      return IntegerRange{a.low + b.low, a.high + b.high};
    return IntegerRange{a.low - b.high, a.high - b.low};
  }

  std::optional<IntegerRange> withConstant(Operation *made, bool isUnsigned) {
    Value value = made->getOperand(0);
    auto number = constantOf(made->getOperand(1));
    if (!number || bitsOf(value) > 32)
      return std::nullopt;
    if (*number < 0)
      return std::nullopt;
    if (isa<arith::AndIOp>(made))
      return IntegerRange{0, *number};
    IntegerRange from = of(value, isa<arith::ShRUIOp>(made));
    if (from.isEmpty() || *number >= bitsOf(value))
      return std::nullopt;
    return IntegerRange{from.low >> *number, from.high >> *number};
  }
};

} // namespace

bool neverOverflows(linalg::GenericOp op, Value sum, bool isUnsigned) {
  return BodyRanges(op).ofExact(sum, isUnsigned).has_value();
}

std::optional<IntegerRange> rangeOfArgument(Value tensor) {
  auto ends = ir::rangeOf(tensor);
  if (!ends)
    return std::nullopt;
  return IntegerRange{ends->first, ends->second};
}

IntegerRange rangeOfElements(Value tensor, bool isUnsigned) {
  IntegerRange all = allIntegers(bitsOf(tensor), isUnsigned);
  Operation *op = tensor.getDefiningOp();
  if (!op) {
    std::optional<IntegerRange> known = rangeOfArgument(tensor);
    return known && all.contains(*known) ? *known : all;
  }
  if (isa<tensor::EmptyOp>(op))
    return none;
  if (isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp,
          tensor::ExtractSliceOp, tensor::CastOp>(op))
    return rangeOfElements(op->getOperand(0), isUnsigned);
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
    return rangeOfElements(insert.getSource(), isUnsigned)
        .with(rangeOfElements(insert.getDest(), isUnsigned));
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic || generic.getNumReductionLoops() != 0)
    return all;
  unsigned number = cast<OpResult>(tensor).getResultNumber();
  return BodyRanges(generic).of(
      generic.getBody()->getTerminator()->getOperand(number), isUnsigned);
}

} // namespace schedule
} // namespace anabranch
