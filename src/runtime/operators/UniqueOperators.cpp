//===- UniqueOperators.cpp - find what differs ----------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/operators/UniqueOperators.h"

#include "runtime/operators/OrderedSelf.h"
#include "runtime/operators/OwnCall.h"
#include "selection/Unique.h"
#include "selection/UniqueRows.h"

namespace anabranch::runtime {

namespace {

using selection::RowShape;
using selection::UniqueRows;

/// Makes the inverse and the counts if the program reads them.
void makeOthers(OwnCall &call, const UniqueRows &unique,
                const std::vector<int64_t> &inverseShape, bool inverted,
                bool counted) {
  std::vector<int64_t> none{0};
  if (call.wants(1)) {
    void *made = call.make(1, DType::I64, inverted ? inverseShape : none);
    if (made && inverted)
      unique.writeInverse(static_cast<int64_t *>(made));
  }
  if (call.wants(2)) {
    void *made = call.make(2, DType::I64, {counted ? unique.size() : 0});
    if (made && counted)
      unique.writeCounts(static_cast<int64_t *>(made));
  }
}

/// PyTorch's operators along a dimension always return all three results.
void runAlong(OwnCall &call, const TensorView &self, UniqueRows::Among among) {
  int32_t dim = dimensionOf(call, self);
  if (!call.ok())
    return;
  std::vector<int64_t> shape = shapeOf(self);
  RowShape rows = rowsAlong(self, dim);
  if (rows.rows && elementsOf(self) == 0)
    return call.fail("has rows without elements");
  UniqueRows unique(self.data, self.dtype, rows, among);
  std::vector<int64_t> inverseShape{rows.rows};
  shape[dim] = unique.size();
  if (void *made = call.make(0, self.dtype, shape))
    unique.writeRows(made);
  makeOthers(call, unique, inverseShape, true, true);
}

} // namespace

void runUnique(OwnCall &call) {
  TensorView self = orderedSelf(call);
  bool inverted = call.boolean("return_inverse") && call.wants(1);
  std::vector<int64_t> none{0};
  int64_t *inverse = nullptr;
  if (call.wants(1))
    inverse = static_cast<int64_t *>(
        call.make(1, DType::I64, inverted ? shapeOf(self) : none));
  if (!call.ok())
    return;
  selection::Unique unique(self.data, self.dtype, elementsOf(self),
                           inverted ? inverse : nullptr);
  if (void *made = call.make(0, self.dtype, {unique.size()}))
    unique.writeNumbers(made);
  if (!call.wants(2))
    return;
  bool counted = call.boolean("return_counts");
  void *counts = call.make(2, DType::I64, {counted ? unique.size() : 0});
  if (counted && counts)
    unique.writeCounts(static_cast<int64_t *>(counts));
}

void runUniqueDim(OwnCall &call) {
  TensorView self = orderedSelf(call);
  if (call.ok())
    runAlong(call, self, UniqueRows::Among::All);
}

void runUniqueConsecutive(OwnCall &call) {
  TensorView self = orderedSelf(call);
  if (!call.ok())
    return;
  if (call.has("dim"))
    return runAlong(call, self, UniqueRows::Among::Neighbours);
  UniqueRows unique(self.data, self.dtype, {1, elementsOf(self), 1},
                    UniqueRows::Among::Neighbours);
  if (void *made = call.make(0, self.dtype, {unique.size()}))
    unique.writeRows(made);
  makeOthers(call, unique, shapeOf(self), call.boolean("return_inverse"),
             call.boolean("return_counts"));
}

} // namespace anabranch::runtime
