//===- QuantizedMicroKernel.h - a block of a quantised product --*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A function of its own, since its accumulators need every vector register:
//
//   NAME(digits, scales, sums, starts, packed, scale, offset, result)
//
// computes, for the rows from which the first four pointers are on, and the
// columns from which the next three are on, the product of all depths.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_QUANTIZED_QUANTIZEDMICROKERNEL_H
#define ANABRANCH_CODEGEN_QUANTIZED_QUANTIZEDMICROKERNEL_H

#include "codegen/quantized/QuantizedContext.h"

namespace anabranch {
namespace codegen {

class QuantizedMicroKernel {
public:
  explicit QuantizedMicroKernel(const QuantizedContext &context)
      : context(context), blocking(context.blocking) {}

  /// Writes the function before `where`. One that `fetches` asks for the whole
  /// panel ahead of its use.
  mlir::func::FuncOp create(mlir::OpBuilder &builder, mlir::Operation *where,
                            llvm::StringRef name, bool fetches);

private:
  const QuantizedContext &context;
  const QuantizedBlocking &blocking;
  bool fetches = false;
  mlir::func::FuncOp function;

  enum Argument : unsigned {
    Digits,
    Scales,
    Sums,
    Starts,
    Packed,
    Scale,
    Offset,
    Result,
    Arguments
  };
  using Factor = llvm::SmallVector<mlir::Value, 2>;

  int64_t accumulators() const {
    return blocking.rows * blocking.vectors * blocking.digits.count;
  }
  void fill(mlir::OpBuilder &b);
  mlir::SmallVector<mlir::Value> addBlock(LaneBuilder &lanes, mlir::Value block,
                                          mlir::ValueRange results);
  mlir::SmallVector<mlir::Value> startSums(LaneBuilder &lanes,
                                           mlir::Value block);
  mlir::SmallVector<mlir::Value> addStep(LaneBuilder &lanes, mlir::Value step,
                                         mlir::ValueRange sums);
  mlir::SmallVector<mlir::Value> scaleSums(LaneBuilder &lanes,
                                           mlir::Value block,
                                           mlir::ValueRange sums,
                                           mlir::ValueRange results);
  void fetch(LaneBuilder &lanes, mlir::Value line);
  mlir::Value load(LaneBuilder &lanes, Argument from, mlir::Value bytes,
                   mlir::Type type);
  Factor widen(LaneBuilder &lanes, mlir::Value bytes);
  mlir::Value multiply(LaneBuilder &lanes, mlir::Value sum,
                       const Factor &weight, mlir::Value digits);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_QUANTIZED_QUANTIZEDMICROKERNEL_H
