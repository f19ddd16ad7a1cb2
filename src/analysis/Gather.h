//===- Gather.h - operands that are parts of a larger tensor ----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// The weights of the experts that a token chose: w[chosen] as an operand of a
// product. A kernel need not copy them: it reads w itself, and finds out where
// once for many elements.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_ANALYSIS_GATHER_H
#define ANABRANCH_ANALYSIS_GATHER_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "llvm/ADT/SmallBitVector.h"

namespace anabranch {
namespace analysis {

/// Elements of `source`, which `op` reads at positions that other tensors hold.
struct Gather {
  mlir::linalg::GenericOp op;
  mlir::Value source;
  /// Loops of the reader of which the positions depend on a quotient at most:
  /// they stay for many steps.
  llvm::SmallBitVector slow = {};
};

/// The tensor that a view shows, or null.
mlir::Value viewedBy(mlir::Operation *op);

/// The gather that an operand is, seen through views; none if anything is
/// computed of the elements.
std::optional<Gather> gatherBehind(mlir::Value operand);

/// The gather behind an operand of a product if neighbours along the depth, and
/// along the loops that this operand has alone, are read at one place: the
/// positions belong to the loops that both operands have, or stay for many
/// steps of another one.
std::optional<Gather> placedGather(mlir::linalg::GenericOp product,
                                   unsigned operand);

} // namespace analysis
} // namespace anabranch

#endif // ANABRANCH_ANALYSIS_GATHER_H
