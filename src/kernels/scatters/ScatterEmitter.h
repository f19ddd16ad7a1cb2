//===- ScatterEmitter.h - elements written where data says ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_SCATTERS_SCATTEREMITTER_H
#define ANABRANCH_KERNELS_SCATTERS_SCATTEREMITTER_H

#include "ir/Anabranch.h"
#include "kernels/groups/NestStorage.h"
#include "kernels/nests/TileGrid.h"
#include "kernels/scatters/RangeLists.h"

namespace anabranch {
namespace kernels {

/// Emits a scatter at one position of its group: row after row where rows have
/// lists of their updates (ScatterRows.h), else a copy of the part of the
/// tensor that it updates, then the updates one by one.
class ScatterEmitter {
public:
  /// If the group's lanes run inside the scatter, `part` has their range.
  /// `lists` are those of a group whose tiles have ranges, else none.
  ScatterEmitter(LoopContext &context, NestStorage &storage, LoopNest &nest,
                 const TilePart &part, const std::optional<RangeLists> &lists);

  /// Emits the scatter, and binds its result for its readers.
  void emit();

private:
  struct Target {
    Buffer buffer;
    bool isScratch;
  };
  /// The innermost loop over the updates, if it writes neighbours in places
  /// that depend on it in no other way. Lanes may run along it, and its indices
  /// are checked once.
  struct Row {
    unsigned dim;    ///< of the updates
    unsigned target; ///< the dimension of the result
  };

  LoopContext &context;
  NestStorage &storage;
  LoopNest &nest;
  const TilePart &part;
  const std::optional<RangeLists> &lists;
  ir::ScatterOp scatter;
  Evaluator &evaluator;
  LaneBuilder &lanes;
  /// The dimension of the result along which `part` has lanes.
  std::optional<unsigned> inside;
  /// The dimension of the result of which `part` is a range.
  std::optional<unsigned> ranged;
  /// For each dimension of the updates, that of the result with which it is
  /// shared.
  llvm::SmallVector<std::optional<unsigned>> sharedAs;

  Point indexIn(const Target &target, llvm::ArrayRef<Lanes> position) const;
  void overLanes(bool inVectors, llvm::function_ref<void(Lanes)> body);
  void overDimension(mlir::Value size, bool inVectors,
                     llvm::function_ref<void(Lanes)> body);
  bool isInPlace();
  void copyInit(const Target &target);
  bool loopsOver(unsigned dim) const;
  std::optional<Row> findRow() const;
  void scatterInto(const Target &target);
  void scatterOneByOne(const Target &target);
  void updateFrom(const Target &target, Point &point, size_t depth);
  void ifInRange(llvm::ArrayRef<Lanes> position,
                 llvm::function_ref<void()> body);
  void update(const Target &target, llvm::ArrayRef<Lanes> point,
              llvm::ArrayRef<Lanes> position);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_SCATTERS_SCATTEREMITTER_H
