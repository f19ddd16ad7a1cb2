//===- UniqueRows.h - the different rows of a tensor ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
//   rows         [3 1] [3 1] [0 5] [3 1]
//   sorted       [0 5] [3 1]              inverse 1 1 0 1, counts 1 3
//   consecutive  [3 1] [0 5] [3 1]        inverse 0 0 1 2, counts 2 1 1

#ifndef ANABRANCH_SELECTION_UNIQUEROWS_H
#define ANABRANCH_SELECTION_UNIQUEROWS_H

#include "anabranch/Tensor.h"
#include "selection/RowShape.h"

#include <cstdint>
#include <vector>

namespace anabranch::selection {

class UniqueRows {
public:
  enum class Among { All, Neighbours };

  /// Takes numbers of a dtype that has keys (Keys.h). Among all rows, the
  /// different ones are sorted; among neighbours, they keep their order.
  UniqueRows(const void *numbers, DType dtype, RowShape shape, Among among);

  int64_t size() const { return static_cast<int64_t>(firsts.size()); }
  /// Writes [outer, size(), inner]: of equal rows, the bits of the first. A row
  /// with a NaN equals none.
  void writeRows(void *rows) const;
  /// Writes for each row the place of its equal among the different ones.
  void writeInverse(int64_t *inverse) const;
  /// Writes how often each row comes.
  void writeCounts(int64_t *counts) const;

private:
  void findKeys();
  void sortOrder();
  bool areEqual(int64_t row, int64_t other) const;
  int64_t width() const { return shape.outer * shape.inner; }

  const void *numbers;
  DType dtype;
  RowShape shape;
  std::vector<uint64_t> keys;  ///< of one row after the other
  std::vector<int64_t> order;  ///< the rows, equal ones together
  std::vector<int64_t> firsts; ///< where in `order` each different row begins
};

} // namespace anabranch::selection

#endif // ANABRANCH_SELECTION_UNIQUEROWS_H
