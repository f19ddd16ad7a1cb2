//===- LeftDigits.h - the rows of a quantised product -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// For each row and block of depths, with x the largest absolute value:
//
//   scale = x / largest     number[k] = round(element[k] / scale)
//   number = sum of digit[i] * 2^(bits * i), each digit with a sign
//
// A block with an infinity or a NaN has NaN as its scale, so that every result
// it is part of becomes NaN. Elements that are bytes are numbers as they are,
// and their scale is one.

#ifndef ANABRANCH_KERNELS_QUANTIZED_LEFTDIGITS_H
#define ANABRANCH_KERNELS_QUANTIZED_LEFTDIGITS_H

#include "kernels/operands/OperandReader.h"
#include "kernels/quantized/QuantizedContext.h"

namespace anabranch {
namespace kernels {

class LeftDigits {
public:
  /// `scratch` must have `scratchBytes`.
  LeftDigits(QuantizedContext &context, mlir::Value scratch);

  static int64_t scratchBytes(const QuantizedContext &context);

  /// Computes the digits of the rows from `first` to before `end`, as the rows
  /// from 0 on.
  void make(mlir::Value first, mlir::Value end);

  /// For each row: its digits; the f32 scales of its blocks; the f32 sums of
  /// its blocks; its zero-point compensation, the i32 sums [digit][block] times
  /// -center.
  mlir::Value digits, scales, sums, compensation;

private:
  QuantizedContext &context;
  GemmContext &gemm;
  LaneBuilder &lanes;
  mlir::Value buffer; ///< the elements of one row as f32
  TypedMemory floats, integers;

  void readRow(mlir::Value row);
  void makeBlock(mlir::Value row, mlir::Value block);
  /// Of a block of a row. Without a factor, the elements are numbers.
  struct Scale {
    mlir::Value number, factor, areFinite;
  };
  Scale scaleOf(mlir::Value first, mlir::Value end);
  mlir::Value numbersAt(mlir::Value k, const Scale &scale);
  mlir::Value largest(mlir::Value first, mlir::Value end);
  mlir::SmallVector<mlir::Value> split(mlir::Value numbers);
  void storeDigits(mlir::Value row, int64_t digit, mlir::Value depth,
                   mlir::Value values);
  mlir::Value splat(float number);
  mlir::Value splat(int32_t number);
  mlir::Value broadcast(mlir::Value scalar);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_QUANTIZED_LEFTDIGITS_H
