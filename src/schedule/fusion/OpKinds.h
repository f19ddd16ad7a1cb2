//===- OpKinds.h - what fusion knows of an operator -------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Questions about single operators of level "linalg". Free of state: any
// thread may ask about IR that nobody changes.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_SCHEDULE_FUSION_OPKINDS_H
#define ANABRANCH_SCHEDULE_FUSION_OPKINDS_H

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

namespace anabranch {
namespace schedule {

enum class OpKind {
  Scalar,      // index and scalar arithmetic, tensor.dim
  Cloned,      // views and constants: recomputed by whoever reads them
  Pointwise,   // one element of the result per point, no reduction
  Reduction,   // linalg.generic with reduction dimensions
  Contraction, // matrix product
  Insert,      // tensor.insert_slice
  Attention,
  Scatter,
  Scan,
  Fallback, // a call of PyTorch
  Fence,    // a point in the order of a stream
  Return
};

OpKind classify(mlir::Operation *op);

/// True for tensor.expand_shape and tensor.collapse_shape: the same bytes under
/// another shape when the source is contiguous.
bool isReshape(mlir::Operation *op);

/// True if evaluating the operator more often than needed costs real time: a
/// math function, or a gather.
bool isExpensive(mlir::Operation *op);

/// Arithmetic operations per element, roughly.
unsigned bodyCost(mlir::Operation *op);

/// Operands, then the values from above that the regions use.
llvm::SmallVector<mlir::Value> allOperands(mlir::Operation *op);

/// Where an operator reads a tensor: for each dimension the loop that runs
/// along all of it, or one of these.
enum : int { kPartOfDim = -1, kUnitDim = -2 };
struct Read {
  mlir::Value value;
  llvm::SmallVector<int> dims;
};

/// The iteration space of an operator: the sizes of its loops (dynamic ones as
/// ShapedType::kDynamic), which of them reduce, and the loop behind each
/// dimension of each result.
struct Loops {
  llvm::SmallVector<int64_t> sizes;
  llvm::SmallVector<bool> reduces;
  llvm::SmallVector<llvm::SmallVector<int>> resultDims;
};
Loops loopsOf(mlir::Operation *op);

/// The tensors that an operator reads, seen through what `isCloned` says is
/// recomputed by its readers.
llvm::SmallVector<Read>
readsOf(mlir::Operation *op,
        llvm::function_ref<bool(mlir::Operation *)> isCloned);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_FUSION_OPKINDS_H
