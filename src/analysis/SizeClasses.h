//===- SizeClasses.h - dimensions of the same size --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_ANALYSIS_SIZECLASSES_H
#define ANABRANCH_ANALYSIS_SIZECLASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OpDefinition.h"

#include <map>
#include <optional>
#include <vector>

namespace anabranch {
namespace analysis {

/// A tensor's dimension: where a loop's trip count is found.
struct DimOf {
  mlir::Value tensor;
  int64_t dimension;
};

/// Answers which dimensions have the same size, also where the size is not
/// known.
class SizeClasses {
public:
  explicit SizeClasses(mlir::func::FuncOp source);
  /// Two dimensions have the same size if their numbers are equal.
  unsigned classOf(DimOf dim);
  std::optional<int64_t> known(DimOf dim) const;
  bool equal(DimOf a, DimOf b) { return classOf(a) == classOf(b); }

private:
  std::vector<unsigned> parent;
  std::map<std::pair<const void *, int64_t>, unsigned> numbers;

  unsigned number(const void *key, int64_t detail);
  unsigned root(unsigned number);
  unsigned numberOf(DimOf dim);
  unsigned numberOf(mlir::OpFoldResult size, const void *otherwise,
                    int64_t detail);
  void unite(unsigned a, unsigned b);
};

} // namespace analysis
} // namespace anabranch

#endif // ANABRANCH_ANALYSIS_SIZECLASSES_H
