//===- KernelFunction.h - the function that a kernel becomes ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A kernel function on tensors becomes a tile function, a plan function and
// perhaps a footprint function (KernelABI.h). A KernelFunction is one of these
// functions while its body is being written: it knows the buffers, and the
// value of each size and scalar.

#ifndef ANABRANCH_KERNELS_EMIT_KERNELFUNCTION_H
#define ANABRANCH_KERNELS_EMIT_KERNELFUNCTION_H

#include "kernels/emit/Lanes.h"
#include "kernels/emit/Memory.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "native/target/Target.h"

namespace anabranch {
namespace kernels {

class KernelFunction {
public:
  /// `sizes` points to the sizes of the ABI. The constructor loads every size,
  /// and clones every scalar computation of the kernel function to the
  /// insertion point.
  KernelFunction(mlir::func::FuncOp source, const native::TargetInfo &target,
                 LaneBuilder &lanes, mlir::Value sizes);

  mlir::func::FuncOp source;
  const native::TargetInfo &target;
  LaneBuilder &lanes;

  /// The size of a tensor's dimension, as `index`.
  mlir::Value dim(mlir::Value tensor, int64_t dimension);
  /// The value, in the function being written, of a scalar that the kernel
  /// function computes at its top level. Null if it has none.
  mlir::Value scalar(mlir::Value value) { return scalars.lookupOrNull(value); }
  /// The value of a size that is an attribute or a scalar of the kernel
  /// function.
  mlir::Value size(mlir::OpFoldResult size);

  /// The memory of arguments and results. The tile function sets the pointers
  /// once; they are null for arguments that are no tensors.
  void setPointers(mlir::ArrayRef<mlir::Value> arguments,
                   mlir::ArrayRef<mlir::Value> results);
  const Buffer &argument(unsigned number) { return argumentBuffers[number]; }
  const Buffer &result(unsigned number) { return resultBuffers[number]; }

  /// Row-major strides of a shape.
  mlir::SmallVector<mlir::Value> rowMajor(mlir::ArrayRef<mlir::Value> shape);
  mlir::SmallVector<mlir::Value> shape(mlir::Value tensor);

  /// Reports an operation of the kernel function that cannot be emitted.
  /// Emission may go on: its result is discarded.
  void fail(mlir::Location where, const llvm::Twine &message);
  bool failed() const { return hasFailed; }

private:
  bool hasFailed = false;
  mlir::IRMapping scalars;
  /// Sizes of arguments and results, null where static.
  mlir::SmallVector<mlir::SmallVector<mlir::Value>> argumentDims, resultDims;

  std::vector<Buffer> argumentBuffers, resultBuffers;

  void loadSizes(mlir::Value sizes);
  void cloneScalars();
  Buffer buffer(mlir::Value pointer, mlir::Type type,
                mlir::ArrayRef<mlir::Value> dims,
                mlir::DenseI64ArrayAttr strides);
};

/// The number of the result as which the kernel function returns this value;
/// none if it does not.
std::optional<unsigned> returnedAs(mlir::func::FuncOp source,
                                   mlir::Value value);
/// The operands of the kernel function's return.
mlir::OperandRange returnedValues(mlir::func::FuncOp source);
/// The argument of `anabranch.in_place` that a result overwrites.
std::optional<unsigned> inPlaceArgument(mlir::func::FuncOp source,
                                        unsigned result);
/// `anabranch.strides` of an argument or result, or null.
mlir::DenseI64ArrayAttr argumentStrides(mlir::func::FuncOp source, unsigned i);
mlir::DenseI64ArrayAttr resultStrides(mlir::func::FuncOp source, unsigned i);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_EMIT_KERNELFUNCTION_H
