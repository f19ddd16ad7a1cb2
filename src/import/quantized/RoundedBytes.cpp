//===- RoundedBytes.cpp - floats that become bytes ------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/quantized/RoundedBytes.h"

#include "import/quantized/AffineIntegers.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace anabranch {
namespace importer {

namespace {

/// Floats have all integers up to this, and the halves between them.
constexpr double mostHalved = 1 << 20;
constexpr double mostByte = 255;

/// The call that makes a tensor, if it has one of these names.
ir::AtenOp madeBy(Value tensor, ArrayRef<StringRef> callees) {
  auto op = tensor ? tensor.getDefiningOp<ir::AtenOp>() : ir::AtenOp();
  bool isIt = op && !op.getOrdered() && op.getNumResults() == 1 &&
              llvm::is_contained(callees, op.getCallee());
  return isIt ? op : ir::AtenOp();
}

struct Range {
  double low, high;

  double clamped(double number) const {
    return std::min(std::max(number, low), high);
  }
};

/// The steps of a graph from a float to a byte. The number is scaled
/// and clamped, and the zero point is added after rounding.
struct Rounding {
  Value number;
  std::optional<float> scale;
  Range bounds;
  double zero = 0;

  static std::optional<Rounding> find(Value converted, DType byte);
  void takeActivation();
};

/// The range of a clamp to integers that the bytes have.
std::optional<Range> rangeOf(ir::AtenOp clamp, DType byte) {
  auto low = clamp.getFloatArg("min"), high = clamp.getFloatArg("max");
  double least = byte.isUnsigned ? 0 : -128;
  if (!low || !high || *low < least || *high > least + mostByte ||
      *low > *high || std::trunc(*low) != *low || std::trunc(*high) != *high)
    return std::nullopt;
  return Range{*low, *high};
}

std::optional<Rounding> Rounding::find(Value converted, DType byte) {
  ir::AtenOp clamp = madeBy(converted, {"clamp"});
  auto range = clamp ? rangeOf(clamp, byte) : std::nullopt;
  if (!range)
    return std::nullopt;
  Rounding found;
  Value sum = clamp.getOperandArg("self");
  if (ir::AtenOp add = madeBy(sum, {"add.Tensor"})) {
    auto zero = add.getFloatArg("other");
    if (!zero || add.getFloatArg("alpha").value_or(1) != 1 ||
        std::trunc(*zero) != *zero || std::abs(*zero) > mostHalved)
      return std::nullopt;
    found.zero = *zero;
    sum = add.getOperandArg("self");
  }
  ir::AtenOp round = madeBy(sum, {"round"});
  if (!round)
    return std::nullopt;
  found.number = round.getOperandArg("self");
  found.bounds = {range->low - found.zero, range->high - found.zero};
  return found;
}

/// If the number is a factor times a clamped one that has no other reader,
/// takes the factor before the clamp, to which it adds the bounds.
void Rounding::takeActivation() {
  ir::AtenOp product = madeBy(number, {"mul.Tensor"});
  auto factor = product ? product.getFloatArg("other") : std::nullopt;
  Value active = factor ? product.getOperandArg("self") : Value();
  ir::AtenOp clamp =
      active ? madeBy(active, {"relu", "hardtanh", "clamp"}) : ir::AtenOp();
  if (!clamp || !number.hasOneUse() || !active.hasOneUse())
    return;
  auto times = static_cast<float>(*factor);
  if (!(times > 0) || !std::isfinite(times))
    return;
  auto low = clamp.getFloatArg("min"), high = clamp.getFloatArg("max");
  if (clamp.getCallee() == "hardtanh") {
    low = clamp.getFloatArg("min_val");
    high = clamp.getFloatArg("max_val");
  } else if (clamp.getCallee() == "relu") {
    low = 0;
  } else if ((clamp.getArg("min") && !low) || (clamp.getArg("max") && !high)) {
    return;
  }
  auto scaled = [&](double bound) {
    return bounds.clamped(static_cast<float>(bound) * times);
  };
  // If the ends cross, the upper one counts.
  bounds = {low ? scaled(*low) : bounds.low,
            high ? scaled(*high) : bounds.high};
  bounds.low = std::min(bounds.low, bounds.high);
  scale = times;
  number = clamp.getOperandArg("self");
}

/// The bytes that a tensor already stands for, with the same scale and zero
/// point and with room for all of them; null for other tensors.
Value sameBytes(LoweringBuilder &b, const Rounding &rounding, DType byte) {
  ir::AtenOp product = madeBy(rounding.number, {"mul.Tensor"});
  auto factor = product ? product.getFloatArg("other") : std::nullopt;
  Value self = factor ? product.getOperandArg("self") : Value();
  auto found = self ? AffineIntegers::find(b, self) : std::nullopt;
  if (!found || found->zeroTensor || !found->scaleTensors.empty() ||
      found->integers.dtype != byte ||
      static_cast<double>(found->zeroNumber) != rounding.zero ||
      rounding.bounds.high - rounding.bounds.low != mostByte)
    return Value();
  // A product with the reciprocal, both rounded, is the integer after rounding.
  constexpr double mostError = 0.25 / (mostByte + 1);
  bool isSame = std::abs(found->scaleNumber * *factor - 1) < mostError;
  return isSame ? found->integers.value : Value();
}

} // namespace

Value roundToBytes(LoweringBuilder &b, ir::AtenOp op) {
  Value converted = convertedBy(op);
  DType byte = converted ? b.resultDType() : DType();
  if (!converted || op.getOrdered() || !byte.isByte() ||
      !getElementTypeOrSelf(converted.getType()).isF32())
    return Value();
  std::optional<Rounding> rounding = Rounding::find(converted, byte);
  if (!rounding)
    return Value();
  if (Value bytes = sameBytes(b, *rounding, byte))
    return bytes;
  rounding->takeActivation();
  Operand number = b.tensor(rounding->number);
  return b.elementwiseMixed(
      {number}, byte, op.getResultSizes(), [&](Body &body, ArrayRef<Num> x) {
        Num scaled = rounding->scale ? x[0] * *rounding->scale : x[0];
        Num bounded = s::minimum(
            s::maximum(scaled, scaled.constant(rounding->bounds.low)),
            scaled.constant(rounding->bounds.high));
        DType wide = DType::integer(b.context(), 32);
        Num whole = s::cast(s::roundeven(bounded), wide);
        return whole + s::constant(body, wide, rounding->zero);
      });
}

} // namespace importer
} // namespace anabranch
