//===- OrderedSelf.cpp - the rows of numbers that have an order -----------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/operators/OrderedSelf.h"

#include "runtime/operators/OwnCall.h"
#include "selection/Keys.h"

namespace anabranch::runtime {

TensorView orderedSelf(OwnCall &call) {
  TensorView self = call.tensor("self");
  if (call.ok() && !selection::hasKeys(self.dtype))
    call.fail("has no order for this dtype");
  return self;
}

int32_t dimensionOf(OwnCall &call, const TensorView &self) {
  int64_t dim = call.has("dim") ? call.integer("dim") : -1;
  if (dim < -self.rank || dim >= self.rank) {
    call.fail("has no dimension " + std::to_string(dim));
    return 0;
  }
  return static_cast<int32_t>(dim < 0 ? dim + self.rank : dim);
}

selection::RowShape rowsAlong(const TensorView &self, int32_t dim) {
  return {countOf(self.shape, self.shape + dim), self.shape[dim],
          countOf(self.shape + dim + 1, self.shape + self.rank)};
}

} // namespace anabranch::runtime
