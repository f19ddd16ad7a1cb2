//===- NestStorage.h - where the values of nests are kept -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_GROUPS_NESTSTORAGE_H
#define ANABRANCH_KERNELS_GROUPS_NESTSTORAGE_H

#include "kernels/groups/LoopContext.h"
#include "kernels/nests/TileGrid.h"

namespace anabranch {
namespace kernels {

/// The memory of a group's nests: the results that they write, and scratch
/// memory for values that other nests read.
class NestStorage {
public:
  NestStorage(LoopContext &context, mlir::Value scratchPointer);

  /// Writes one of the nest's values to all its destinations.
  void deliver(LoopNest &nest, mlir::Value result, llvm::ArrayRef<Lanes> index,
               Lanes value);
  /// From now on, nests that read this one load its values.
  void bindResult(LoopNest &nest);

  /// The parts of the results' memory that the nest writes.
  llvm::ArrayRef<Buffer> targetsOf(const LoopNest &nest) const;
  /// The memory of the partial results of reductions in row order.
  mlir::Value rowMemory() const { return rows; }
  /// The scratch memory of a value, and the index of an element of its nest in
  /// it.
  Buffer scratchOf(mlir::Value value) const { return scratch.lookup(value); }
  Point scratchIndex(const LoopNest &nest, llvm::ArrayRef<Lanes> index);

private:
  LoopContext &context;
  LaneBuilder &lanes;
  llvm::DenseMap<const LoopNest *, llvm::SmallVector<Buffer>> targets;
  llvm::DenseMap<mlir::Value, Buffer> scratch;
  mlir::Value rows;

  void addScratch(const ScratchPart &part, mlir::Value scratchPointer);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_GROUPS_NESTSTORAGE_H
