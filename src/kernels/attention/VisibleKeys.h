//===- VisibleKeys.h - the keys that a mask shows to a tile -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_ATTENTION_VISIBLEKEYS_H
#define ANABRANCH_KERNELS_ATTENTION_VISIBLEKEYS_H

#include "kernels/attention/AttentionContext.h"

namespace anabranch {
namespace kernels {

/// Leaves out the keys at both ends that the mask hides from all queries of a
/// tile, or from those of a block of rows: their weights are zero. So a cache
/// of keys costs as much as is in use, and a mask that is causal costs what a
/// causal attention costs. The search reads only what it leaves out and one
/// vector more at each end.
class VisibleKeys {
public:
  explicit VisibleKeys(AttentionContext &attention)
      : attention(attention), lanes(attention.lanes) {}

  /// Sets `firstKey` and `keyEnd` of the tile.
  void narrowTile();
  /// How many keys of a block have products with these rows: those up to the
  /// last one that a row sees, in whole steps of scores. Zero: no row sees one.
  mlir::Value countFor(const AttentionContext::RowBlock &rows,
                       const AttentionContext::KeyBlock &keys);

private:
  AttentionContext &attention;
  LaneBuilder &lanes;

  using RowBlock = AttentionContext::RowBlock;
  bool hidesKeys();
  /// How many vectors of keys, `count` from `first` on, there are up to the
  /// last one of which a row sees a key.
  mlir::Value vectorsUpToLast(const RowBlock &rows, mlir::Value first,
                              mlir::Value count);
  /// Whether some row sees some key of the vector at `key`.
  mlir::Value isSeen(const RowBlock &rows, mlir::Value key);
  /// Which keys of the vector at `key` a query sees.
  mlir::Value seenBy(mlir::Value row, mlir::Value key);
  RowBlock rowsOfMask(const RowBlock &rows);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_ATTENTION_VISIBLEKEYS_H
