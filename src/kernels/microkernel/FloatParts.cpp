//===- FloatParts.cpp - floats as sums of bf16 ----------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/microkernel/FloatParts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

int64_t productsOfParts(int64_t left, int64_t right) {
  return right == 1 ? left : left == 3 ? 6 : 4;
}

namespace {

class Splitter {
public:
  Splitter(LaneBuilder &lanes, VectorType floats)
      : lanes(lanes), floats(floats),
        bits(cast<VectorType>(floats.clone(lanes.builder.getI32Type()))) {}

  /// The number with its upper half rounded to the nearest bf16. A NaN may
  /// become any number, but leaves a NaN as the rest.
  Value round(Value number) {
    constexpr int32_t half = 0x8000;
    return lanes.make<arith::AddIOp>(asBits(number), splat(half));
  }

  /// A number minus the upper half of `rounded`.
  Value restOf(Value number, Value rounded) {
    constexpr auto upperHalf = static_cast<int32_t>(0xffff0000U);
    Value part = lanes.make<arith::AndIOp>(rounded, splat(upperHalf));
    return lanes.make<arith::SubFOp>(number,
                                     lanes.make<LLVM::BitcastOp>(floats, part));
  }

  /// Words of the upper halves of two vectors.
  Value pack(Value low, Value high) {
    int64_t width = floats.getNumElements();
    SmallVector<int64_t> order;
    for (int64_t i = 0; i < width; ++i)
      order.append({2 * i + 1, 2 * width + 2 * i + 1});
    Value words =
        lanes.make<vector::ShuffleOp>(asHalves(low), asHalves(high), order);
    return lanes.make<LLVM::BitcastOp>(floats, words);
  }

  Value asBits(Value value) { return lanes.make<LLVM::BitcastOp>(bits, value); }

private:
  LaneBuilder &lanes;
  VectorType floats, bits;

  Value asHalves(Value value) {
    Type halves = VectorType::get({2 * floats.getNumElements()},
                                  lanes.builder.getI16Type());
    return lanes.make<LLVM::BitcastOp>(halves, value);
  }
  Value splat(int32_t value) {
    return lanes.constant(DenseElementsAttr::get(bits, value));
  }
};

} // namespace

SmallVector<Value> splitToParts(LaneBuilder &lanes, Value low, Value high,
                                int64_t parts) {
  Splitter splitter(lanes, cast<VectorType>(low.getType()));
  SmallVector<Value> found;
  for (int64_t i = 1; i < parts; ++i) {
    Value lowPart = splitter.round(low), highPart = splitter.round(high);
    found.push_back(splitter.pack(lowPart, highPart));
    low = splitter.restOf(low, lowPart);
    high = splitter.restOf(high, highPart);
  }
  // The last part is exact: nothing is left to round.
  found.push_back(splitter.pack(low, high));
  return found;
}

void storeParts(LaneBuilder &lanes, const TypedMemory &memory,
                ArrayRef<Value> parts, Value to, Value offset,
                int64_t distance) {
  for (auto [i, part] : llvm::enumerate(parts))
    memory.store(part, to,
                 lanes.addIndex(offset, lanes.index(i * distance /
                                                    memory.elementBytes())));
}

} // namespace kernels
} // namespace anabranch
