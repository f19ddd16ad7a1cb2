//===- PackedAttention.h - attention of many queries ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// All queries of the tile use each key and value of a block. So these are
// copied to panels once, and the micro-kernel multiplies the panels.

#ifndef ANABRANCH_KERNELS_ATTENTION_PACKEDATTENTION_H
#define ANABRANCH_KERNELS_ATTENTION_PACKEDATTENTION_H

#include "kernels/attention/BlockProducts.h"
#include "kernels/attention/PairPacking.h"
#include "kernels/microkernel/MicroKernel.h"

namespace anabranch {
namespace kernels {

class PackedAttention : public BlockProducts {
public:
  explicit PackedAttention(AttentionContext &attention)
      : BlockProducts(attention), packing(attention) {}

  void begin() override;
  void prepare(const AttentionContext::KeyBlock &keys) override;
  void score(const AttentionContext::RowBlock &rows,
             const AttentionContext::KeyBlock &keys) override;
  void mix(const AttentionContext::RowBlock &rows,
           const AttentionContext::KeyBlock &keys) override;

private:
  PairPacking packing;
  /// The micro-kernels' functions. The first call makes each.
  mlir::func::FuncOp scoreBlock, outputBlock;

  /// Elements of a word along the depth.
  int64_t perWord() const {
    return attention.blocking.usesDots ? PairPacking::perWord : 1;
  }
  MicroKernel microKernel(int64_t vectors, int64_t sumStride) const;
  mlir::Value wordsOf(const AttentionContext::KeyBlock &keys) const;
  void packKeys(mlir::Value firstKey);
  void packValues(const AttentionContext::KeyBlock &keys);

  /// A product of scratch matrices. The left one has rows of `depth` words, of
  /// which the first `words` are used. The right one has panels of that depth,
  /// of which the first ones with `columns` are used.
  struct Product {
    mlir::Value left, right, result; ///< the rows' first elements
    int64_t depth;
    mlir::Value words, columns;
    bool continues; ///< adds to the result
  };
  void multiply(const MicroKernel &kernel, mlir::func::FuncOp &block,
                llvm::StringRef suffix, const AttentionContext::RowBlock &rows,
                const Product &product);
  mlir::Value rowIn(mlir::Value memory, const AttentionContext::RowBlock &rows,
                    int64_t elements) const;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_ATTENTION_PACKEDATTENTION_H
