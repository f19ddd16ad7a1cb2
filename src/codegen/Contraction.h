//===- Contraction.h - what a contraction kernel computes -------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A matrix product in the general sense: result[batch, row, column] is the sum
// over depth of left[batch, row, depth] * right[batch, depth, column]. Both
// operands may have producers (prologue) and the results of the kernel are
// pointwise functions of the product (epilogue). Nothing is emitted here, so
// that the tile function and the plan function agree.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_CONTRACTION_H
#define ANABRANCH_CODEGEN_CONTRACTION_H

#include "codegen/Epilogue.h"
#include "codegen/Target.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include <string>

namespace anabranch {
namespace codegen {

/// How one operand is read.
struct ContractionOperand {
  unsigned number;                 ///< operand of the generic
  mlir::Operation *cast = nullptr; ///< extf in the body, or null
  /// True if it is an argument of the accumulator's type seen through views, so
  /// that reading an element again costs no more than a load.
  bool isPlain = false;
  /// True if each step along the depth moves by the same number of bytes.
  bool isRegular = false;
  /// The loop whose neighbours are neighbours in memory, if any.
  std::optional<unsigned> unitLoop;
};

struct Contraction {
  mlir::func::FuncOp source;
  mlir::linalg::GenericOp op;
  /// Loops of `op`.
  llvm::SmallVector<unsigned> batch, rows;
  unsigned column = 0;
  unsigned depth = 0;
  ContractionOperand left, right;
  mlir::Type element; ///< of the accumulators: f32 or f64
  bool startsAtZero = true;
  llvm::SmallVector<Epilogue, 1> epilogues;

  /// The size of a loop if it is known now.
  std::optional<int64_t> knownSize(unsigned loop) const;
  std::optional<int64_t> knownSize(mlir::ArrayRef<unsigned> loops) const;

  /// The contraction of a kernel function, or none and why there is none.
  static std::optional<Contraction> find(mlir::func::FuncOp source,
                                         std::string &why);
};

/// How a contraction is cut up for a processor.
struct ContractionTiling {
  enum class Right { InPlace, Pack, PackTransposed };

  int64_t lanes;       ///< of a vector of accumulators
  int64_t rows;        ///< of a block of accumulators in registers
  int64_t vectors;     ///< of a block, side by side
  int64_t depth;       ///< of a panel
  int64_t rowsPerTile; ///< a multiple of `rows`
  bool packLeft;
  Right right;

  int64_t columns() const { return lanes * vectors; }

  static ContractionTiling choose(const Contraction &contraction,
                                  const TargetInfo &target);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_CONTRACTION_H
