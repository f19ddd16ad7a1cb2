//===- PartPanels.h - panels of a right operand in parts --------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A panel of floats as the parts that AMX registers multiply (FloatParts.h):
// [part][word][column]. The words of a step of registers are whole: those
// behind the end of the depth are zero.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_GEMM_PARTPANELS_H
#define ANABRANCH_CODEGEN_GEMM_PARTPANELS_H

#include "codegen/operands/OperandReader.h"

namespace anabranch {
namespace codegen {

class PartPanels {
public:
  /// `panel` is the memory to fill.
  PartPanels(GemmContext &gemm, mlir::Value panel)
      : gemm(gemm), lanes(gemm.lanes), panel(panel),
        reader(gemm, gemm.contraction.right) {}

  /// Fills the context's panel with the depths from `first` to before `end`.
  void fill(mlir::Value first, mlir::Value end);

  /// Scratch elements of a part.
  static int64_t partElements(const GemmContext &gemm);

private:
  GemmContext &gemm;
  LaneBuilder &lanes;
  mlir::Value panel;
  OperandReader reader;
  mlir::Value firstDepth, endDepth;

  void fillFromPanels();
  void fillFromColumns();
  void fillTransposed();
  void fillWords(
      llvm::function_ref<mlir::Value(mlir::Value depth, int64_t vector)> load);
  mlir::Value orZero(mlir::Value vector, mlir::Value depth);
  void store(mlir::ArrayRef<mlir::Value> parts, mlir::Value word,
             mlir::Value column);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_GEMM_PARTPANELS_H
