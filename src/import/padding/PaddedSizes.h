//===- PaddedSizes.h - which dimensions are padded --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_PADDING_PADDEDSIZES_H
#define ANABRANCH_IMPORT_PADDING_PADDEDSIZES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include <map>

namespace anabranch {

/// A size as factors, the slowest first. A positive factor is a number, a
/// negative one a symbol. Ones are left out.
using SizeLabel = llvm::SmallVector<int64_t, 2>;

inline bool isPadded(const SizeLabel &label) {
  return llvm::any_of(label, [](int64_t factor) { return factor < 0; });
}

/// Multiplies neighbouring numbers, so that equal sizes have equal labels.
SizeLabel normalized(const SizeLabel &label);

/// The sizes of a function's arguments, and sizes computed from them.
class PaddedSizes {
public:
  explicit PaddedSizes(mlir::func::FuncOp main);

  SizeLabel ofArgument(mlir::BlockArgument argument, int64_t dim) const;
  /// The label of a size; none if it is more than a product of numbers and
  /// symbols.
  std::optional<SizeLabel> of(mlir::OpFoldResult size) const;
  /// Whether the value changes with a symbol.
  bool dependsOnSymbol(mlir::Value value) const;
  /// The smallest value of a size.
  int64_t least(const SizeLabel &label) const;

private:
  using Key = std::pair<const void *, int64_t>;
  std::optional<Key> keyOf(mlir::Value size) const;

  std::map<Key, SizeLabel> labels;
  std::map<int64_t, int64_t> minima;
};

} // namespace anabranch

#endif // ANABRANCH_IMPORT_PADDING_PADDEDSIZES_H
