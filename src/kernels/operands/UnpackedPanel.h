//===- UnpackedPanel.h - a panel of a weight of few bits --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Products of many rows read a weight of 4 or 8 bits (ir/QuantizedWeight.h)
// through a panel of floats in scratch memory. The weight itself stays packed,
// and products of few rows read the same copy.

#ifndef ANABRANCH_KERNELS_OPERANDS_UNPACKEDPANEL_H
#define ANABRANCH_KERNELS_OPERANDS_UNPACKEDPANEL_H

#include "kernels/operands/WeightIntegers.h"

namespace anabranch {
namespace kernels {

class UnpackedPanel {
public:
  /// `panel` is the memory to fill, as words of the accumulators' type.
  UnpackedPanel(GemmContext &gemm, const QuantizedOperand &weight,
                mlir::Value panel);

  /// Fills the context's panel with the depths from `first` to before `end`.
  /// `first` must begin a block of the depth.
  void fill(mlir::Value first, mlir::Value end);

private:
  GemmContext &gemm;
  LaneBuilder &lanes;
  const QuantizedOperand &weight;
  mlir::Value panel;
  mlir::Value firstDepth, endDepth;
  WeightIntegers integers;
  TypedMemory floats;

  /// A vector of columns: its first column, and its address in the panel.
  struct Columns {
    mlir::Value first;
    int64_t place;
  };

  void fillStep(mlir::Value step, bool whole);
  void fillVector(mlir::Value step, const Columns &columns, bool whole);
  /// Words of a column that are neighbours in the panel.
  int64_t wordsAtOnce() const;
  void storeNumbers(mlir::Value depth, const Columns &columns,
                    llvm::ArrayRef<mlir::Value> numbers, bool whole);
  void store(mlir::Value depth, const Columns &columns,
             llvm::ArrayRef<mlir::Value> words);
  mlir::Value number(mlir::Value bytes, int64_t depth,
                     const WeightIntegers::Parameters &factors);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_OPERANDS_UNPACKEDPANEL_H
