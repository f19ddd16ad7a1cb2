//===- BlockProducts.h - the products of a block of keys --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_ATTENTION_BLOCKPRODUCTS_H
#define ANABRANCH_KERNELS_ATTENTION_BLOCKPRODUCTS_H

#include "kernels/attention/AttentionContext.h"

namespace anabranch {
namespace kernels {

/// Emits the two products of a tile's queries with a block of keys and values.
class BlockProducts {
public:
  explicit BlockProducts(AttentionContext &attention)
      : attention(attention), lanes(attention.lanes), memory(attention.memory) {
  }
  virtual ~BlockProducts() = default;

  /// Called before the first block. Packs the tile's queries, scaled, as
  /// [query][head] with zeros after the head.
  virtual void begin();
  /// Called before the products of a block of keys.
  virtual void prepare(const AttentionContext::KeyBlock &) {}
  /// scores = queries * keys^T.
  virtual void score(const AttentionContext::RowBlock &rows,
                     const AttentionContext::KeyBlock &keys) = 0;
  /// output += weights * values.
  virtual void mix(const AttentionContext::RowBlock &rows,
                   const AttentionContext::KeyBlock &keys) = 0;
  /// Called after the last block.
  virtual void end() {}

protected:
  /// Sets all scores of a block to zero. The vectors at its end have scores
  /// that nobody computes: what is there by chance may be denormal numbers.
  void clearScores();

  AttentionContext &attention;
  LaneBuilder &lanes;
  const TypedMemory &memory;

private:
  /// Sets elements of scratch memory to zero, from `first` to before `end`.
  void clear(mlir::Value scratch, mlir::Value first, mlir::Value end);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_ATTENTION_BLOCKPRODUCTS_H
