//===- Gather.h - operands that are parts of a larger tensor ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A gather is an operand such as w[chosen]: the weights of the experts that a
// token chose, or the blocks of a cache that hold a request's tokens. A kernel
// need not copy them. It reads `w` in place, and computes each position once
// for many elements.

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
  /// Loops of the reader along which the positions stay the same for many
  /// steps: they depend on such a loop through a quotient, or not at all.
  llvm::SmallBitVector steady = {};
};

/// The tensor that a view reads, or null if `op` is no view.
mlir::Value viewedBy(mlir::Operation *op);

/// The gather that makes an operand, found through views. None if the program
/// computes anything with the gathered elements.
std::optional<Gather> gatherThroughViews(mlir::Value operand);

/// The gather that makes an operand of a product, if a kernel can compute each
/// position once for many elements. Every loop that a position depends on must
/// be a loop of both operands, have one step, or be one of `steady`.
std::optional<Gather> placedGather(mlir::linalg::GenericOp product,
                                   unsigned operand);

/// The gathers that make keys or values of an attention, if one row of a source
/// holds each of their rows whole. A kernel then computes the position of a row
/// once and reads the row in place. Paged caches are read so, through a table
/// of blocks or of tokens. Pointwise operators, such as the conversion of a
/// cache in few bits, may follow the gathers.
llvm::SmallVector<Gather> gathersOfRows(mlir::Value operand);

} // namespace analysis
} // namespace anabranch

#endif // ANABRANCH_ANALYSIS_GATHER_H
