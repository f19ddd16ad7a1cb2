//===- RangeLists.h - which updates each tile of a scatter has --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The tiles of a scatter by ranges of rows (nests/ScatterTiles.h) have updates
// anywhere. So the setup of the kernel sorts the numbers of the updates into
// lists, and a tile goes through its own ones. Numbers of a list keep their
// order, so each row gets its updates in the order of the operator. A list has
// the updates of a row or, where rows are too many for that, of a tile. A
// scatter of a single range has no lists: its tile has all the numbers.
//
// Updates are numbered row-major along the dimensions that are no other
// dimension of the result than the one that is cut into ranges.

#ifndef ANABRANCH_KERNELS_SCATTERS_RANGELISTS_H
#define ANABRANCH_KERNELS_SCATTERS_RANGELISTS_H

#include "ir/Anabranch.h"
#include "kernels/emit/Evaluator.h"
#include "kernels/nests/TileGrid.h"

namespace anabranch {
namespace kernels {

/// Consecutive places in the lists.
struct UpdateRange {
  mlir::Value first, last; ///< from the first to before the last

  mlir::Value hasAny(LaneBuilder &lanes) const;
};

class RangeLists {
public:
  /// `memory` is the group's part of the scratch memory.
  RangeLists(KernelFunction &function, const NestGroup &group,
             mlir::Value memory);

  /// The scratch memory of the lists of a group; zero without ranges.
  static mlir::Value bytes(KernelFunction &function, const NestGroup &group);

  /// Fills the lists.
  void sort(Evaluator &evaluator) const;

  /// Emits the body for each of the tile's updates, with their positions along
  /// the numbered dimensions in `point`.
  void forEach(const TilePart &part, llvm::MutableArrayRef<Lanes> point,
               llvm::function_ref<void()> body) const;

  /// Whether each row has a list, as i1.
  mlir::Value areOfRows() const;
  /// The updates of a row that has a list.
  UpdateRange ofRow(mlir::Value row) const { return ofLists(row, row); }
  /// The number at a place.
  mlir::Value number(mlir::Value place) const { return get(numbers, place); }
  /// Sets the positions of an update along the numbered dimensions.
  void setPoint(mlir::Value number, llvm::MutableArrayRef<Lanes> point) const;

  /// Whether updates are numbered along their dimension.
  bool isNumbered(unsigned dim) const { return llvm::is_contained(dims, dim); }

private:
  LaneBuilder &lanes;
  const NestGroup &group;
  ir::ScatterOp scatter;
  TileGrid grid;
  llvm::SmallVector<unsigned> dims; ///< the numbered dimensions of the updates
  llvm::SmallVector<mlir::Value> sizes; ///< of these
  mlir::Value count;                    ///< of numbers
  mlir::Value rowsLog; ///< a list has the updates of two to this power of rows
  /// Zero and, for each list, the place behind its last number.
  Buffer ends;
  Buffer numbers; ///< list by list

  mlir::Value hasLists() const;
  mlir::Value listed(mlir::Value plain,
                     llvm::function_ref<mlir::Value()> found) const;
  mlir::Value listOf(mlir::Value row) const;
  UpdateRange ofLists(mlir::Value first, mlir::Value last) const;
  void forAll(Evaluator &evaluator,
              llvm::function_ref<void(mlir::Value number, mlir::Value list)>
                  body) const;
  mlir::Value get(const Buffer &buffer, mlir::Value at) const;
  void set(const Buffer &buffer, mlir::Value at, mlir::Value value) const;
};

/// Where a scatter writes its update at `point`. Checks the indices.
llvm::SmallVector<Lanes> positionOf(Evaluator &evaluator, ir::ScatterOp scatter,
                                    llvm::ArrayRef<Lanes> point);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_SCATTERS_RANGELISTS_H
