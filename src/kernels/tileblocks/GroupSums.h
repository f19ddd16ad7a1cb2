//===- GroupSums.h - sums that a weight's scales multiply -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// tile registers multiply the integers of a weight of few bits as bf16 numbers,
// which are exact (PartPanels.h). Scales and offsets multiply the sums of each
// group of depths:
//
//   result[row, column] += scale[group, column] * sum[row, column]
//                        + offset[group, column] * sum of the row's elements
//
// The sums of two groups take turns in memory: vectors scale the one group
// while the registers compute the next.

#ifndef ANABRANCH_KERNELS_TILEBLOCKS_GROUPSUMS_H
#define ANABRANCH_KERNELS_TILEBLOCKS_GROUPSUMS_H

#include "kernels/operands/LeftOperand.h"
#include "kernels/operands/WeightIntegers.h"

namespace anabranch {
namespace kernels {

class GroupSums {
public:
  /// `memory` must have `elements`.
  GroupSums(GemmContext &gemm, const QuantizedOperand &weight,
            LeftOperand &left, mlir::Value memory);
  static int64_t elements(const GemmContext &gemm);

  /// A block of the product for a part of the depth: `first` is its first
  /// depth.
  struct Block {
    mlir::Value row, rowCount, first;
    mlir::Value results; ///< [row][column]
  };
  /// The memory for the sums of a group, which is counted within the block of
  /// the depth.
  mlir::Value at(mlir::Value number);
  void clearResults(const Block &block);
  /// Adds the scaled sums of a group to the results.
  void scale(const Block &block, mlir::Value number);

private:
  GemmContext &gemm;
  LaneBuilder &lanes;
  LeftOperand &left;
  WeightIntegers weight;
  mlir::Value group; ///< depths of a group
  mlir::Value memory;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_TILEBLOCKS_GROUPSUMS_H
