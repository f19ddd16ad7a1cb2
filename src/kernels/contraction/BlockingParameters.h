//===- BlockingParameters.h - what tuning may set of a plan -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_CONTRACTION_BLOCKINGPARAMETERS_H
#define ANABRANCH_KERNELS_CONTRACTION_BLOCKINGPARAMETERS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace anabranch {
namespace kernels {

/// Parts of a product's plan that are given. Parts without a value are chosen
/// as by default. Any value is safe: one that does not fit the product is
/// rounded to one that does, or ignored.
struct BlockingParameters {
  /// The name of the plan's row; empty: the cheapest plan. A plan that refuses
  /// the product is ignored.
  std::string plan;
  /// Of a block of accumulators in vector registers. Both or neither are set.
  std::optional<int64_t> rows, vectors;
  std::optional<int64_t> depth;
  std::optional<int64_t> rowsPerTile, panelsPerTile;
  std::optional<int64_t> bytesAhead;

  /// The number of parameters with a value, without the plan.
  int64_t count() const;
  /// "plan=vector_blocks,rows=8,vectors=3"; empty if nothing is given.
  std::string text() const;
  /// The parameters in such a text; none if it is no such text.
  static std::optional<BlockingParameters> parse(llvm::StringRef text);
  /// The parameters that a kernel function gives to this plan: none if it names
  /// another one.
  static BlockingParameters of(mlir::func::FuncOp kernel, llvm::StringRef plan);

  /// The attribute of a kernel function with the text.
  static constexpr llvm::StringLiteral attribute = "anabranch.blocking";
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_CONTRACTION_BLOCKINGPARAMETERS_H
