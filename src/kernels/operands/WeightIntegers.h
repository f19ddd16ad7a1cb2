//===- WeightIntegers.h - what a weight of few bits holds -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Reads the integers, scales and offsets of a weight of 4 or 8 bits
// (ir/QuantizedWeight.h), for vectors of the columns of the current panel.
// Vectors after the last column read other columns, whose sums are not read.

#ifndef ANABRANCH_KERNELS_OPERANDS_WEIGHTINTEGERS_H
#define ANABRANCH_KERNELS_OPERANDS_WEIGHTINTEGERS_H

#include "kernels/contraction/QuantizedOperand.h"
#include "kernels/microkernel/CodePairs.h"
#include "kernels/operands/GemmContext.h"

namespace anabranch {
namespace kernels {

class WeightIntegers {
public:
  WeightIntegers(GemmContext &gemm, const QuantizedOperand &weight);

  /// The first column of the vector that begins `place` columns after that of
  /// the panel.
  mlir::Value columnAt(int64_t place);

  /// The address of the four bytes of a column for a step of depths.
  mlir::Value addressOf(mlir::Value step, mlir::Value column);
  /// The four bytes that each column has for a step of depths. Also prefetches
  /// bytes far ahead.
  mlir::Value load(mlir::Value step, mlir::Value column);

  /// The integers minus the center, or the floats that they stand for, as f32,
  /// of a depth within these bytes.
  mlir::Value number(mlir::Value bytes, int64_t depth);

  /// Whether tables make pairs of bf16 from floats of eight bits, and the words
  /// of a step's bytes: those of the first two depths, and of the last two.
  bool makesPairs() const;
  std::array<mlir::Value, 2> pairsOf(mlir::Value bytes);

  /// The same of a depth within the bytes of two steps, as words of bf16, which
  /// are exact: not of a table's numbers.
  mlir::Value pairs(mlir::Value low, mlir::Value high, int64_t depth);

  /// Scale and offset of a vector of columns. A null scale means one, a null
  /// offset zero.
  struct Parameters {
    mlir::Value scale, offset;
  };
  Parameters parameters(mlir::Value group, mlir::Value column);

private:
  GemmContext &gemm;
  LaneBuilder &lanes;
  const QuantizedOperand &weight;
  TypedMemory words, floats;

  mlir::Value placeOf(mlir::Value step, mlir::Value column);
  mlir::Value loadPairs(mlir::Value place, mlir::Value column);
  mlir::Value packed() { return gemm.function.argument(weight.packed).pointer; }
  int64_t shiftOf(int64_t depth) const;
  mlir::FloatType smallFloat() const {
    return weight.layout.floatType(lanes.builder.getContext());
  }
  mlir::Value floatOfCode(mlir::Value bytes, int64_t depth);
  mlir::Value numberOfTable(mlir::Value position);
  mlir::Value splatBits(int64_t bits);
  mlir::Value nibblePairs(mlir::Value low, mlir::Value high, int64_t shift);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_OPERANDS_WEIGHTINTEGERS_H
