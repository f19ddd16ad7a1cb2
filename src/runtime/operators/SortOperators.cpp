//===- SortOperators.cpp - put numbers in order ---------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/operators/SortOperators.h"

#include "runtime/operators/OrderedSelf.h"
#include "runtime/operators/OwnCall.h"
#include "selection/Sort.h"

namespace anabranch::runtime {

using selection::Order;

/// A number is a row of one element.
static TensorView withDimension(TensorView self) {
  static constexpr int64_t one[] = {1};
  return self.rank ? self : TensorView{self.data, one, one, 1, self.dtype};
}

/// Makes the first `kept` of each row, or all if it is negative.
static void makeOrdered(OwnCall &call, Order order, int64_t kept) {
  TensorView self = orderedSelf(call);
  TensorView rows = withDimension(self);
  int32_t dim = dimensionOf(call, rows);
  if (!call.ok())
    return;
  selection::RowShape lines = rowsAlong(rows, dim);
  if (kept < 0)
    kept = lines.rows;
  if (kept > lines.rows)
    return call.fail("takes " + std::to_string(kept) + " elements of rows of " +
                     std::to_string(lines.rows));
  std::vector<int64_t> shape = shapeOf(self);
  if (self.rank)
    shape[dim] = kept;
  void *sorted = call.wants(0) ? call.make(0, self.dtype, shape) : nullptr;
  void *places = call.wants(1) ? call.make(1, DType::I64, shape) : nullptr;
  if (call.ok() && kept)
    selection::sortLines(self.data, self.dtype, lines, order, kept, sorted,
                         static_cast<int64_t *>(places));
}

void runSort(OwnCall &call) {
  makeOrdered(
      call,
      call.boolean("descending") ? Order::LargestFirst : Order::LeastFirst, -1);
}

void runTopK(OwnCall &call) {
  int64_t kept = call.integer("k");
  if (kept < 0)
    return call.fail("takes " + std::to_string(kept) + " elements");
  makeOrdered(call,
              !call.has("largest") || call.boolean("largest")
                  ? Order::LargestFirst
                  : Order::LeastFirst,
              kept);
}

} // namespace anabranch::runtime
