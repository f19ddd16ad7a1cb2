//===- MatrixCall.h - a call that multiplies matrices -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_QUANTIZED_MATRIXCALL_H
#define ANABRANCH_IMPORT_QUANTIZED_MATRIXCALL_H

#include "import/lowering/Lowering.h"

namespace anabranch {
namespace importer {

/// left [..., M, K] times right [..., K, N], or [N, K] if `hasRowsOfRight`,
/// plus a bias that broadcasts to the result.
struct MatrixCall {
  mlir::Value left, right;
  Operand bias;
  bool hasRowsOfRight = false;

  /// None for calls of other operators, for vectors, and for several batch
  /// dimensions of the right operand.
  static std::optional<MatrixCall> of(LoweringBuilder &b, ir::AtenOp op);

  int64_t leftRank() const;
  int64_t rightRank() const;
  /// The dimension of the depth in each operand.
  int64_t leftDepth() const { return leftRank() - 1; }
  int64_t rightDepth() const { return hasRowsOfRight ? 1 : rightRank() - 2; }
  /// The size of the depth, or ShapedType::kDynamic.
  int64_t depth() const;
  /// The sums of products, [..., M, N], of tensors in the places of both
  /// operands. They have one dtype, or are bytes; the result has its
  /// accumulator's.
  mlir::Value contract(LoweringBuilder &b, const Operand &left,
                       const Operand &right) const;
};

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_QUANTIZED_MATRIXCALL_H
