//===- PartPanels.h - panels of a right operand in parts --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A panel of floats as the parts that tile registers multiply (FloatParts.h):
// [part][word][column]. The words of a step of registers are whole: those
// after the end of the depth are zero. The integers of a weight of few bits
// are one part; after the end they are any integers.

#ifndef ANABRANCH_KERNELS_OPERANDS_PARTPANELS_H
#define ANABRANCH_KERNELS_OPERANDS_PARTPANELS_H

#include "kernels/contraction/QuantizedOperand.h"
#include "kernels/operands/OperandReader.h"

namespace anabranch {
namespace kernels {

class PartPanels {
public:
  /// `panel` is the memory to fill.
  PartPanels(GemmContext &gemm, mlir::Value panel);

  /// Fills the context's panel with the depths from `first` to before `end`.
  void fill(mlir::Value first, mlir::Value end);

  /// A panel of a frozen weight, and the memory that it is filled into.
  struct Ahead {
    mlir::Value source; ///< address of its first depth
    mlir::Value first, end;
    mlir::Value panel;
  };
  /// Fills what a block of rows, one of `blocks`, has to fill in a step of tile
  /// registers.
  static void fillShare(GemmContext &gemm, const Ahead &ahead, mlir::Value step,
                        mlir::Value block, mlir::Value blocks);

  /// Whether panels of a frozen weight are filled ahead.
  static bool areFilledAhead(const GemmContext &gemm) {
    return gemm.layout.steps.hasParts() && gemm.contraction.right.panels;
  }
  /// Scratch elements of a part, of a panel, and of all panels.
  static int64_t partElements(const GemmContext &gemm);
  static int64_t panelElements(const GemmContext &gemm) {
    return gemm.layout.steps.rightParts() * partElements(gemm);
  }
  static int64_t scratchElements(const GemmContext &gemm) {
    return panelElements(gemm) * (areFilledAhead(gemm) ? 2 : 1);
  }

private:
  GemmContext &gemm;
  LaneBuilder &lanes;
  mlir::Value panel;
  OperandReader reader;
  mlir::Value firstDepth, endDepth;

  using Load =
      llvm::function_ref<mlir::Value(mlir::Value depth, int64_t vector)>;

  void fillFromColumns();
  void fillFromIntegers(const QuantizedOperand &weight);
  void fillTransposed();
  void fillSquares(mlir::Value group, mlir::Value step);
  void fillSteps(Load load);
  void fillWords(mlir::Value step, mlir::Value low, mlir::Value high,
                 Load load);
  mlir::Value loadFrom(mlir::Value source, mlir::Value depth, int64_t vector);
  mlir::Value orZero(mlir::Value vector, mlir::Value depth);
  void store(mlir::ArrayRef<mlir::Value> parts, mlir::Value word,
             mlir::Value column);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_OPERANDS_PARTPANELS_H
