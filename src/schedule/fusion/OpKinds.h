//===- OpKinds.h - what fusion knows of an operator -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Questions about single operators of level "linalg". They keep no state: any
// thread may ask about IR that no thread changes.

#ifndef ANABRANCH_SCHEDULE_FUSION_OPKINDS_H
#define ANABRANCH_SCHEDULE_FUSION_OPKINDS_H

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

namespace anabranch {
namespace schedule {

enum class OpKind {
  Scalar,      // index and scalar arithmetic, tensor.dim
  Cloned,      // views and constants: every reader recomputes them
  Pointwise,   // one element of the result per point, no reduction
  Reduction,   // linalg.generic with reduction dimensions
  Contraction, // matrix product
  Insert,      // tensor.insert_slice
  Attention,
  Scatter,
  Scan,
  Fft,
  Fallback, // a call of PyTorch
  Fence,    // a point in the order of a stream
  Return
};

OpKind classify(mlir::Operation *op);

/// True for zeros, or equal bytes, around an image that only views of its
/// windows read. The convolution fills them in where it reads the image,
/// without a padded copy.
bool isPaddingOfWindows(mlir::Operation *op);

/// True for a function of bytes, element by element, of a few operations, whose
/// results are wider than bytes and go to pointwise operators only. Reading the
/// bytes again takes less time than storing and reading the results.
bool isWideningOfBytes(mlir::Operation *op);

/// True if an operand is a view of the windows of an image. The operator then
/// reads each point of the image several times.
bool readsWindows(mlir::Operation *op);

/// True for tensor.expand_shape, tensor.collapse_shape and
/// anabranch.reinterpret. On a contiguous source they are the same bytes under
/// another type.
bool isReshape(mlir::Operation *op);

/// Returns the value from which reshapes make this one. Both have the same
/// bytes.
mlir::Value lookThroughReshapes(mlir::Value value);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_FUSION_OPKINDS_H
