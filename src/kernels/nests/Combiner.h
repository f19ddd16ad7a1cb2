//===- Combiner.h - reductions that may be split over lanes -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A reduction's body may do anything with its accumulator. Run in order it is
// always right. Several partial accumulators may run side by side only if the
// body is one associative operation with a neutral element.

#ifndef ANABRANCH_KERNELS_NESTS_COMBINER_H
#define ANABRANCH_KERNELS_NESTS_COMBINER_H

#include "ir/Anabranch.h"
#include "kernels/emit/Lanes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace anabranch {
namespace kernels {

/// The operation that combines the accumulator of output `output` with a new
/// value. Null if the body is more than that.
mlir::Operation *findCombiner(mlir::linalg::GenericOp op, unsigned output);

/// The combiner of a scan whose body is nothing else; else null.
mlir::Operation *findCombiner(ir::ScanOp op);

/// True if every output has a combiner.
bool hasCombiners(mlir::linalg::GenericOp op);

/// The element that does not change a value combined with it.
mlir::TypedAttr neutralElement(mlir::Operation *combiner);

/// combiner(a, b) on scalars or vectors.
mlir::Value combine(LaneBuilder &lanes, mlir::Operation *combiner,
                    mlir::Value a, mlir::Value b);

/// Each lane of a vector combined with all lanes before it.
mlir::Value combineBefore(LaneBuilder &lanes, mlir::Operation *combiner,
                          mlir::Value vector);

/// All lanes of a vector combined, as a scalar.
mlir::Value combineAcross(LaneBuilder &lanes, mlir::Operation *combiner,
                          mlir::Value vector);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_NESTS_COMBINER_H
