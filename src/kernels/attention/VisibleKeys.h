//===- VisibleKeys.h - the keys that a mask shows to a tile -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Most masks show each query one run of keys, and change no score of it: causal
// ones, those of padding and of windows. A search of a tile's rows of the mask
// finds where each row's run begins and ends, and whether all rows are such.
// Then blocks of keys read the mask no more: they compare positions with the
// runs, and those inside all runs compare nothing. So a cache of keys costs as
// much as is in use, and a causal mask costs what a causal attention costs.

#ifndef ANABRANCH_KERNELS_ATTENTION_VISIBLEKEYS_H
#define ANABRANCH_KERNELS_ATTENTION_VISIBLEKEYS_H

#include "kernels/attention/AttentionContext.h"

namespace anabranch {
namespace kernels {

class VisibleKeys {
public:
  using RowBlock = AttentionContext::RowBlock;
  using KeyBlock = AttentionContext::KeyBlock;

  explicit VisibleKeys(AttentionContext &attention)
      : attention(attention), lanes(attention.lanes),
        limits(lanes, lanes.builder.getI32Type(), attention.blocking.lanes) {}

  /// Searches the mask. Sets `firstKey`, `keyEnd` and `hasRuns` of the tile.
  void narrowTile();

  /// How many keys of a block have products with these rows: those up to the
  /// last one that a row sees. Zero or less: no row sees one.
  mlir::Value countFor(const RowBlock &rows, const KeyBlock &keys);

  /// What hides keys of a block from rows: nothing, the end of each row's run,
  /// or whatever the mask says.
  enum class Hidden { None, AfterEnd, ByMask };
  /// Emits the body for each case that there may be, and the choice of one.
  void whereHidden(const RowBlock &rows, const KeyBlock &keys,
                   llvm::function_ref<void(Hidden)> body);
  /// The end of the keys that a row sees, unless the mask says otherwise.
  mlir::Value endFor(mlir::Value row, Hidden hidden);

private:
  AttentionContext &attention;
  LaneBuilder &lanes;
  TypedMemory limits;

  /// A run of keys, and whether the mask changes no score of it, as i1.
  struct Run {
    mlir::Value begin, end, isWhole;
  };
  Run search(mlir::Value row, mlir::Value asksWhole);
  std::pair<mlir::Value, mlir::Value> beginOf(mlir::Value row, mlir::Value end,
                                              mlir::Value asksWhole);
  mlir::Value isWhole(mlir::Value row, mlir::Value begin, mlir::Value end);
  /// Bits of the keys from a position on, as an i64: of those that a row sees,
  /// or of those whose scores the mask leaves as they are.
  enum class Bits { Seen, Unchanged };
  mlir::Value compareFloats(mlir::Value floats, Bits which);
  mlir::Value bitsAt(mlir::Value row, mlir::Value key, Bits which);

  /// The bounds of the runs of some rows.
  struct Bounds {
    mlir::Value firstEnd, lastEnd, lastBegin;
  };
  Bounds boundsOf(const RowBlock &rows);
  mlir::Value loadLimit(mlir::Value row, bool isEnd);
  void storeLimits(mlir::Value row, const Run &run);

  mlir::Value toIndex(mlir::Value integer);
  bool hasSearch() const;
  int64_t width() const;
  bool sharesHeads() const, sharesQueries() const;
  /// Whether all rows of a tile have the same row of the mask.
  bool isOneRow() const;
  /// Whether each query has a row of the mask, for all heads of a tile.
  bool rowsAreQueries() const;
  RowBlock rowsOfMask(const RowBlock &rows);
  mlir::Value slotOf(mlir::Value row);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_ATTENTION_VISIBLEKEYS_H
