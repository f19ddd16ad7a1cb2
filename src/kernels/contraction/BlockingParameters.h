//===- BlockingParameters.h - what tuning may set of a blocking -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_CONTRACTION_BLOCKINGPARAMETERS_H
#define ANABRANCH_KERNELS_CONTRACTION_BLOCKINGPARAMETERS_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace anabranch {
namespace kernels {

/// Parts of a GemmBlocking that are given. Parts without a value are chosen as
/// by default. Any value is safe: one that does not fit the product is rounded
/// to one that does, or ignored.
struct BlockingParameters {
  std::optional<int64_t> amx; ///< 0: no AMX registers
  /// Of a block of accumulators in vector registers. Both or neither are set.
  std::optional<int64_t> rows, vectors;
  std::optional<int64_t> depth;
  std::optional<int64_t> rowsPerTile, panelsPerTile;
  std::optional<int64_t> bytesAhead;

  /// The number of parameters with a value.
  int64_t count() const;
  /// "rows=8,vectors=3,depth=384"; empty if none has a value.
  std::string text() const;
  /// The parameters in such a text; none if it is no such text.
  static std::optional<BlockingParameters> parse(llvm::StringRef text);

  /// The attribute of a kernel function with the text.
  static constexpr llvm::StringLiteral attribute = "anabranch.blocking";
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_CONTRACTION_BLOCKINGPARAMETERS_H
