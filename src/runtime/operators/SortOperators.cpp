//===- SortOperators.cpp - put numbers in order ---------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/operators/SortOperators.h"

#include "runtime/operators/OrderedSelf.h"
#include "runtime/operators/OwnCall.h"
#include "selection/Sort.h"

namespace anabranch::runtime {

using selection::Order;
using selection::Ties;

/// A number is a row of one element.
static TensorView withDimension(TensorView self) {
  static constexpr int64_t one[] = {1};
  return self.rank ? self : TensorView{self.data, one, one, 1, self.dtype};
}

/// Eager PyTorch sorts a long tensor of integers by their digits, in which
/// equal ones keep their order.
static bool sortsByDigits(const TensorView &self, Order order) {
  constexpr int64_t grain = 32768;
  return order == Order::LeastFirst && self.rank == 1 &&
         self.shape[0] >= grain && !selection::hasNan(self.dtype) &&
         self.dtype != DType::Bool;
}

/// Makes the first `kept` of each row, or all if it is negative.
static void makeOrdered(OwnCall &call, Order order, Ties ties, int64_t kept) {
  TensorView self = orderedSelf(call);
  TensorView rows = withDimension(self);
  int32_t dim = dimensionOf(call, rows);
  if (!call.ok())
    return;
  selection::RowShape lines = rowsAlong(rows, dim);
  if (ties == Ties::OfSort && sortsByDigits(self, order))
    ties = Ties::InOrder;
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
    selection::sortLines(self.data, self.dtype, lines, order, ties, kept,
                         sorted, static_cast<int64_t *>(places));
}

void runSort(OwnCall &call) {
  Order order =
      call.boolean("descending") ? Order::LargestFirst : Order::LeastFirst;
  bool isStable = call.has("stable") && call.boolean("stable");
  makeOrdered(call, order, isStable ? Ties::InOrder : Ties::OfSort, -1);
}

void runTopK(OwnCall &call) {
  int64_t kept = call.integer("k");
  if (kept < 0)
    return call.fail("takes " + std::to_string(kept) + " elements");
  bool takesLargest = !call.has("largest") || call.boolean("largest");
  bool isSorted = !call.has("sorted") || call.boolean("sorted");
  makeOrdered(call, takesLargest ? Order::LargestFirst : Order::LeastFirst,
              isSorted ? Ties::OfTopK : Ties::OfLooseTopK, kept);
}

} // namespace anabranch::runtime
