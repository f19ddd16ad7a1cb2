//===- VectorLoop.cpp - a loop by vectors ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/control/VectorLoop.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

SmallVector<Value> VectorLoop::emit(LaneBuilder &lanes, ValueRange carried,
                                    Body body) const {
  auto run = [&](Value iv, ValueRange values, Value mask) {
    LaneBuilder::MaskGuard guard(lanes, width, mask);
    if (width == 1)
      return body(Lanes::uniform(iv), values);
    return body(Lanes::linear(iv, 1, width), values);
  };
  auto masked = [&](Value iv, ValueRange values) {
    Value mask;
    {
      LaneBuilder::MaskGuard guard(lanes, width, Value());
      mask = lanes.prefixMask(lanes.subIndex(high, iv));
    }
    return run(iv, values, mask);
  };
  auto full = [&](Value iv, ValueRange values) {
    return run(iv, values, Value());
  };
  if (isExact || width == 1)
    return lanes.loop(low, high, width, carried, full);
  // A second copy of a long body would cost more compile time than a masked
  // loop costs run time.
  if (isLong)
    return lanes.loop(low, high, width, carried, masked);
  Value whole = lanes.mulIndex(
      lanes.divIndex(lanes.subIndex(high, low), lanes.index(width)),
      lanes.index(width));
  Value middle = lanes.addIndex(low, whole);
  SmallVector<Value> results = lanes.loop(low, middle, width, carried, full);
  Value rest =
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt, middle, high);
  SmallVector<Type> types;
  for (Value value : results)
    types.push_back(value.getType());
  return lanes.ifElse(
      rest, types, [&] { return masked(middle, results); },
      types.empty() ? LaneBuilder::Side() : [&] { return results; });
}

} // namespace kernels
} // namespace anabranch
