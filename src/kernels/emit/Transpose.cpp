//===- Transpose.cpp - squares transposed in registers --------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// Rows and columns are numbered in binary, and each step swaps one bit of the
// row with one of the column. x86 has instructions for these steps:
// interleaving the halves of 128-bit parts (vpunpckl/h), and putting the even
// or the odd parts of two vectors together (vperm2f128, vshuff64x2).

#include "kernels/emit/Transpose.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// The low or high halves of each part of `a` and `b`, interleaved.
static Value interleave(LaneBuilder &lanes, Value a, Value b, int64_t part,
                        bool high) {
  int64_t width = cast<VectorType>(a.getType()).getNumElements();
  SmallVector<int64_t> order;
  for (int64_t base = 0; base < width; base += part)
    for (int64_t i = 0; i < part / 2; ++i) {
      int64_t from = base + (high ? part / 2 : 0) + i;
      order.append({from, width + from});
    }
  return lanes.make<vector::ShuffleOp>(a, b, order);
}

/// Every second part of `a`, then every second one of `b`.
static Value everySecond(LaneBuilder &lanes, Value a, Value b, int64_t part,
                         bool odd) {
  int64_t width = cast<VectorType>(a.getType()).getNumElements();
  SmallVector<int64_t> order;
  for (int64_t from = odd ? part : 0; from < 2 * width; from += 2 * part)
    for (int64_t i = 0; i < part; ++i)
      order.push_back(from + i);
  return lanes.make<vector::ShuffleOp>(a, b, order);
}

/// Calls `step` for each step of a transpose. A step combines vectors whose
/// numbers differ in `bit`, twice each pair.
static void transposeInSteps(
    LaneBuilder &lanes, ArrayRef<Value> rows,
    function_ref<void(int64_t bit,
                      function_ref<Value(Value a, Value b, bool second)>)>
        step) {
  int64_t width = rows.size();
  int64_t bits =
      getElementTypeOrSelf(rows[0].getType()).getIntOrFloatBitWidth();
  int64_t part = std::min<int64_t>(width, 128 / bits);
  for (int64_t bit = part / 2; bit > 0; bit /= 2)
    step(bit, [&](Value a, Value b, bool second) {
      return interleave(lanes, a, b, part, second);
    });
  for (int64_t bit = part; bit < width; bit *= 2)
    step(bit, [&](Value a, Value b, bool second) {
      return everySecond(lanes, a, b, part, second);
    });
}

SmallVector<Value> transpose(LaneBuilder &lanes, ArrayRef<Value> rows) {
  SmallVector<Value> current(rows);
  transposeInSteps(lanes, rows, [&](int64_t bit, auto meet) {
    for (size_t i = 0; i < current.size(); ++i) {
      if (i & bit)
        continue;
      Value a = current[i], b = current[i | bit];
      current[i] = meet(a, b, false);
      current[i | bit] = meet(a, b, true);
    }
  });
  return current;
}

Value addTransposed(LaneBuilder &lanes, ArrayRef<Value> rows) {
  // Later steps treat both results of a step alike, so these can be added at
  // once. Each step halves the number of vectors.
  SmallVector<Value> current(rows);
  transposeInSteps(lanes, rows, [&](int64_t bit, auto meet) {
    for (size_t i = 0; i < current.size(); ++i) {
      if (i & bit || !current[i])
        continue;
      Value a = current[i], b = current[i | bit];
      current[i] =
          lanes.make<arith::AddFOp>(meet(a, b, false), meet(a, b, true));
      current[i | bit] = Value();
    }
  });
  return current[0];
}

SmallVector<Lanes> loadTransposed(LaneBuilder &lanes, const Buffer &buffer,
                                  ArrayRef<Lanes> index, unsigned along) {
  SmallVector<Lanes> at(index);
  at[along] = Lanes::linear(index[along].value);
  SmallVector<Value> rows;
  for (int64_t lane = 0; lane < lanes.width; ++lane) {
    for (auto [dim, position] : llvm::enumerate(index))
      if (position.isLinear())
        at[dim] = Lanes::uniform(
            lanes.addIndex(position.value, lanes.index(lane * position.step)));
    rows.push_back(loadRaw(lanes, buffer, at));
  }
  SmallVector<Lanes> columns;
  for (Value column : transpose(lanes, rows))
    columns.push_back(
        Lanes::varying(fromMemory(lanes, column, buffer.element)));
  return columns;
}

} // namespace kernels
} // namespace anabranch
