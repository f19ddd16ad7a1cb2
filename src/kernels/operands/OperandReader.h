//===- OperandReader.h - elements of one operand of a product ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Reads an operand through its producers, at points of the contraction's
// iteration space (GemmContext::point).

#ifndef ANABRANCH_KERNELS_OPERANDS_OPERANDREADER_H
#define ANABRANCH_KERNELS_OPERANDS_OPERANDREADER_H

#include "kernels/operands/GemmContext.h"

namespace anabranch {
namespace kernels {

class OperandReader {
public:
  OperandReader(GemmContext &gemm, const ContractionOperand &operand)
      : gemm(gemm), lanes(gemm.lanes), operand(operand) {}

  /// `stored` reads an element in the operand's type, `element` in the
  /// accumulators' type.
  Lanes stored(mlir::ArrayRef<Lanes> point);
  Lanes element(mlir::ArrayRef<Lanes> point);
  /// A vector of elements in the operand's type; of bf16 it has the bits. A
  /// processor without bf16 would move such values lane by lane.
  mlir::Value bits(mlir::ArrayRef<Lanes> point);

  /// A vector of elements along the depth, from `depth` on, in the
  /// accumulators' type. Unless it is known to be `whole`, it has zeros from
  /// `end` on.
  mlir::Value elements(mlir::Value row, mlir::Value column, mlir::Value depth,
                       mlir::Value end, bool whole);
  /// A vector of words along the depth, from `depth` on. Unless it is known to
  /// be `whole`, it has zeros from `end` on.
  mlir::Value words(mlir::Value row, mlir::Value column, mlir::Value depth,
                    mlir::Value end, bool whole);

  /// The address of an element that is a plain load. For another element the
  /// kernel fails to compile.
  mlir::Value addressOf(mlir::ArrayRef<Lanes> point);
  /// The address of an element; null if it is no plain load.
  mlir::Value findAddress(mlir::ArrayRef<Lanes> point);

  /// An address, and the bytes from there to the next depth, or to the next run
  /// of depths.
  struct Address {
    mlir::Value pointer;
    mlir::Value step; ///< i64; null if the micro-kernel knows it
  };
  /// The address of the point `pointAt(depth)`, and the step from there to the
  /// point `depths` after it; no step if that is zero.
  Address addressAlongDepth(
      mlir::Value depth, int64_t depths,
      llvm::function_ref<mlir::SmallVector<Lanes>(Lanes depth)> pointAt);

private:
  GemmContext &gemm;
  LaneBuilder &lanes;
  const ContractionOperand &operand;

  mlir::Value alongDepth(mlir::Value row, mlir::Value column, mlir::Value depth,
                         mlir::Value end, bool whole, int64_t kPack);
};

/// The bytes from one address to another, as i64.
mlir::Value byteDistance(LaneBuilder &lanes, mlir::Value from, mlir::Value to);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_OPERANDS_OPERANDREADER_H
