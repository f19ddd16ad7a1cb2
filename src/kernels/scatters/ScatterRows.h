//===- ScatterRows.h - a scatter that ends row after row --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Where each row of the result has a list of its updates (RangeLists.h), a tile
// goes through its rows:
//
//   for each row of the tile
//     for each block of columns               | a few vectors
//       values = the row of what is updated   | in registers
//       for each update of the row
//         values = body(values, update)
//       store the values
//
// Each element is written once, and its updates come in their order.

#ifndef ANABRANCH_KERNELS_SCATTERS_SCATTERROWS_H
#define ANABRANCH_KERNELS_SCATTERS_SCATTERROWS_H

#include "ir/Anabranch.h"
#include "kernels/groups/LoopContext.h"
#include "kernels/scatters/RangeLists.h"

namespace anabranch {
namespace kernels {

class ScatterRows {
public:
  /// Whether updates cover whole rows of known length, so that registers can
  /// hold the columns.
  static bool fits(const LoopContext &context, const LoopNest &nest);

  /// `isInPlace`: rows without updates have their values already.
  ScatterRows(LoopContext &context, const LoopNest &nest,
              const RangeLists &lists, bool isInPlace);

  /// Emits the rows of the tile, written to `target`.
  void emit(const TilePart &part, const Buffer &target);

private:
  LoopContext &context;
  LaneBuilder &lanes;
  const RangeLists &lists;
  ir::ScatterOp scatter;
  bool isInPlace;
  /// For each dimension of the result, that of the updates which runs along
  /// it. None for the rows.
  llvm::SmallVector<std::optional<unsigned>> along;
  int64_t columns; ///< the size of the last dimension

  void emitColumns(const Buffer &target, Point &index, size_t depth,
                   UpdateRange updates);
  void emitBlock(const Buffer &target, Point index, int64_t first, int64_t end,
                 UpdateRange updates);
  Lanes column(int64_t first) const;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_SCATTERS_SCATTERROWS_H
