//===- QuantizedFunction.h - one function for a block of rows ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The micro-kernel is a function of its own, since its accumulators need every
// register:
//
//   NAME(digits, scales, sums, compensation, packed, scale, offset, result)
//
// It computes the product over all depths. The first four pointers say where
// its rows begin, the next three where its columns begin.

#ifndef ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDFUNCTION_H
#define ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDFUNCTION_H

#include "kernels/quantized/QuantizedContext.h"

namespace anabranch {
namespace kernels {

class QuantizedFunction {
public:
  explicit QuantizedFunction(const QuantizedContext &context)
      : context(context), blocking(context.blocking) {}
  virtual ~QuantizedFunction() = default;

  /// Writes the function before `where`. If it `fetches`, it prefetches the
  /// whole panel ahead of its use.
  mlir::func::FuncOp create(mlir::OpBuilder &builder, mlir::Operation *where,
                            llvm::StringRef name, bool fetches);

protected:
  const QuantizedContext &context;
  const QuantizedBlocking &blocking;
  bool fetches = false;
  mlir::func::FuncOp function;

  enum Argument : unsigned {
    Digits,
    Scales,
    Sums,
    Compensation,
    Packed,
    Scale,
    Offset,
    Result,
    Arguments
  };
  static constexpr int64_t panelBytes = ir::QuantizedWeight::panelColumns * 4;

  virtual void fill(LaneBuilder &lanes) = 0;

  /// The steps of a block of depths: the first one, and the one after the
  /// last.
  std::pair<mlir::Value, mlir::Value> stepsOf(LaneBuilder &lanes,
                                              mlir::Value block);
  /// Prefetches a step of the panel that is used much later.
  void fetch(LaneBuilder &lanes, mlir::Value line);
  mlir::Value load(LaneBuilder &lanes, Argument from, mlir::Value bytes,
                   mlir::Type type);
  /// The zero-point compensation of a row and a digit, in all lanes: the start
  /// value of their sums.
  mlir::Value compensationOf(LaneBuilder &lanes, mlir::Value block, int64_t row,
                             int64_t digit);

  /// Scale and offset of a vector of columns. A null scale means one, a null
  /// offset zero.
  struct Parameters {
    mlir::Value scale, offset;
  };
  Parameters parameters(LaneBuilder &lanes, mlir::Value block, int64_t vector);
  /// A vector of a row's result after a block. `sums` has one vector for each
  /// digit.
  mlir::Value addScaled(LaneBuilder &lanes, mlir::Value block, int64_t row,
                        llvm::ArrayRef<mlir::Value> digits,
                        const Parameters &parameters, mlir::Value result);
};

/// A number in all lanes of a vector of integers.
mlir::Value splat(LaneBuilder &lanes, mlir::Type type, int64_t number);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDFUNCTION_H
