//===- QuantizedMicroKernel.h - a block of a quantised product --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDMICROKERNEL_H
#define ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDMICROKERNEL_H

#include "kernels/quantized/QuantizedFunction.h"

namespace anabranch {
namespace kernels {

/// Accumulates in vector registers, by dot products.
class QuantizedMicroKernel : public QuantizedFunction {
public:
  using QuantizedFunction::QuantizedFunction;

protected:
  /// The sums [row][digit][vector] after some steps.
  virtual mlir::SmallVector<mlir::Value> addSteps(LaneBuilder &lanes,
                                                  mlir::Value first,
                                                  mlir::Value end,
                                                  mlir::ValueRange sums);

private:
  using Factor = llvm::SmallVector<mlir::Value, 2>;

  void fill(LaneBuilder &lanes) override;
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
  Factor widen(LaneBuilder &lanes, mlir::Value bytes);
  mlir::Value multiply(LaneBuilder &lanes, mlir::Value sum,
                       const Factor &weight, mlir::Value digits);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDMICROKERNEL_H
