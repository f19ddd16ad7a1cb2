//===- StreamedAttention.h - attention of few queries -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// When a token is decoded, a query or a few use each key and value of a cache.
// Keys and values are read in place, since a copy would cost more than the
// products. Reading them once takes nearly all the time. Processors prefetch
// consecutive reads: keys, and then values, are read in the order of memory,
// also by the machine code. Each change from keys to values interrupts that, so
// the blocks of keys are large.

#ifndef ANABRANCH_KERNELS_ATTENTION_STREAMEDATTENTION_H
#define ANABRANCH_KERNELS_ATTENTION_STREAMEDATTENTION_H

#include "kernels/attention/BlockProducts.h"
#include "kernels/attention/PairPacking.h"
#include "kernels/microkernel/WordProduct.h"

namespace anabranch {
namespace kernels {

class StreamedAttention : public BlockProducts {
public:
  explicit StreamedAttention(AttentionContext &attention);

  void begin() override;
  /// Computes the scores of some keys at a time, of all rows.
  void score(const AttentionContext::RowBlock &rows,
             const AttentionContext::KeyBlock &keys) override;
  /// Adds the weighted values, with the output in registers.
  void mix(const AttentionContext::RowBlock &rows,
           const AttentionContext::KeyBlock &keys) override;

private:
  /// The rows and columns of the output that are in registers.
  struct Part {
    mlir::Value firstRow;
    int64_t rows;
    int64_t firstColumn, endColumn;
  };

  PairPacking packing;
  WordProduct product;

  /// Keys of one multiply-add of the output.
  int64_t perWord() const {
    return attention.blocking.usesDots ? PairPacking::perWord : 1;
  }
  mlir::Value keyWords(mlir::Value key, int64_t at);
  mlir::Value valueWords(const AttentionContext::KeyBlock &keys,
                         mlir::Value word, int64_t at, PairPacking::Pair pair);
  int64_t keysOfSums() const;
  mlir::Value queryWords(int64_t row, int64_t part);
  void scoreKeys(mlir::Value group, llvm::ArrayRef<mlir::Value> keys);
  void storeScores(llvm::ArrayRef<mlir::Value> sums, int64_t count,
                   mlir::Value group);
  int64_t valuesAtOnce(const Part &part) const;
  mlir::Value weightsOf(mlir::Value row, mlir::Value word);
  void mixPart(const Part &part, const AttentionContext::KeyBlock &keys);
  mlir::SmallVector<mlir::Value>
  mixLastKey(const Part &part, const AttentionContext::KeyBlock &keys,
             mlir::Value word, mlir::ValueRange before);
  mlir::SmallVector<mlir::Value>
  mixWord(const Part &part, const AttentionContext::KeyBlock &keys,
          mlir::Value word, PairPacking::Pair pair, mlir::ValueRange before);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_ATTENTION_STREAMEDATTENTION_H
