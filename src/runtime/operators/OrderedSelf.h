//===- OrderedSelf.h - the rows of numbers that have an order ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_OPERATORS_ORDEREDSELF_H
#define ANABRANCH_RUNTIME_OPERATORS_ORDEREDSELF_H

#include "anabranch/Tensor.h"
#include "selection/RowShape.h"

namespace anabranch::runtime {

class OwnCall;

/// The argument `self`, contiguous; the call fails if its numbers have no
/// order.
TensorView orderedSelf(OwnCall &call);

/// The argument `dim`, from zero on; the last one if the call has none. The
/// call fails if the tensor has no such dimension.
int32_t dimensionOf(OwnCall &call, const TensorView &self);

selection::RowShape rowsAlong(const TensorView &self, int32_t dim);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_OPERATORS_ORDEREDSELF_H
