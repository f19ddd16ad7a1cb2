//===- ScatterDims.h - dimensions that a scatter keeps ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A scatter of rows writes column c of its result from column c of its updates
// only. Columns are then independent of each other, while the updates of one
// column keep their order.

#ifndef ANABRANCH_KERNELS_NESTS_SCATTERDIMS_H
#define ANABRANCH_KERNELS_NESTS_SCATTERDIMS_H

#include "ir/Anabranch.h"

#include <optional>

namespace anabranch {
namespace kernels {

/// For each dimension of the result, the dimension of the updates whose number
/// is the position in it; none if the position is another number. A dimension
/// of the updates appears once, and its number is used as an index only.
llvm::SmallVector<std::optional<unsigned>> updatedAlong(ir::ScatterOp scatter);

/// The dimension of the result whose neighbours the last dimension of the
/// updates writes, in places that depend on it in no other way; none if there
/// is none.
std::optional<unsigned> rowOf(ir::ScatterOp scatter);

/// Whether the position in dimension `target` of the result depends on no
/// dimension of the updates that is a dimension of the result too.
bool updatesRows(ir::ScatterOp scatter, unsigned target);

/// Whether the position in another dimension of the result than `target`
/// depends on dimension `dim` of the updates.
bool movesElsewhere(ir::ScatterOp scatter, unsigned dim, unsigned target);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_NESTS_SCATTERDIMS_H
