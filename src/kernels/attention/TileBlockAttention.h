//===- TileBlockAttention.h - attention in tile registers -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Keys and values of a block are copied once for all queries of the tile, to
// panels in the layout of tile registers (TileBlock.h). A word holds two
// elements along the depth, which is the head for the scores and the keys for
// the output. Queries, keys and values of f32, and the weights, are sums of
// three bf16, and the registers multiply these parts (FloatParts.h).

#ifndef ANABRANCH_KERNELS_ATTENTION_TILEBLOCKATTENTION_H
#define ANABRANCH_KERNELS_ATTENTION_TILEBLOCKATTENTION_H

#include "kernels/attention/BlockProducts.h"
#include "kernels/attention/PairPacking.h"
#include "kernels/microkernel/TileBlock.h"

#include <optional>

namespace anabranch {
namespace kernels {

class TileBlockAttention : public BlockProducts {
public:
  explicit TileBlockAttention(AttentionContext &attention)
      : BlockProducts(attention), packing(attention) {}

  void begin() override;
  void prepare(const AttentionContext::KeyBlock &keys) override;
  void score(const AttentionContext::RowBlock &rows,
             const AttentionContext::KeyBlock &keys) override;
  void mix(const AttentionContext::RowBlock &rows,
           const AttentionContext::KeyBlock &keys) override;
  void end() override;

private:
  PairPacking packing;
  std::optional<TileBlock> scores, output;

  void makeBlocks();
  mlir::Value rowInTile(const AttentionContext::RowBlock &rows);

  /// Rows of words times panels of `depth` words. Takes `steps` registers of
  /// the depth.
  struct Product {
    mlir::Value left;            ///< the first row
    int64_t leftWords, leftPart; ///< words of a row and of a part
    mlir::Value right;           ///< the panel
    int64_t rightPart;
    mlir::Value steps;
    mlir::Value sums;
    bool continues; ///< adds to the sums
  };
  void multiply(TileBlock &block, const Product &product);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_ATTENTION_TILEBLOCKATTENTION_H
