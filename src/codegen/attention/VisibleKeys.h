//===- VisibleKeys.h - the keys that a mask shows to a tile -----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_ATTENTION_VISIBLEKEYS_H
#define ANABRANCH_CODEGEN_ATTENTION_VISIBLEKEYS_H

#include "codegen/attention/AttentionContext.h"

namespace anabranch {
namespace codegen {

/// Leaves out the keys at both ends that the mask hides from all queries of a
/// tile: their weights are zero. So a cache of keys costs as much as is in use,
/// and a mask that is causal costs what a causal attention costs. The search
/// reads only what it leaves out and one vector more at each end.
class VisibleKeys {
public:
  explicit VisibleKeys(AttentionContext &attention)
      : attention(attention), lanes(attention.lanes) {}

  /// Sets `firstKey` and `keyEnd` of the tile.
  void narrowTile();

private:
  AttentionContext &attention;
  LaneBuilder &lanes;

  /// Whether some query of the tile sees some key of the vector at `key`.
  mlir::Value isSeen(mlir::Value key);
  /// Which keys of the vector at `key` a query sees.
  mlir::Value seenBy(mlir::Value row, mlir::Value key);
  std::pair<mlir::Value, mlir::Value> rowsOfMask();
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_ATTENTION_VISIBLEKEYS_H
