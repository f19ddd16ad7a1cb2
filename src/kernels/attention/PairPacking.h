//===- PairPacking.h - operands as pairs of bf16 ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Instructions that multiply pairs of bf16 take words of two elements along the
// depth:
//
//   queries   [part][query][head / 2]          pairs of the head
//   keys      [part][panel][head / 2][column]  the same, columns are keys
//   values    [part][panel][keys / 2][column]  pairs of keys
//   weights   [part][query][keys / 2]          pairs of keys
//
// Where instructions multiply matrices, two words of a column are neighbours:
//
//   keys      [panel][head / 4][column][2]
//   values    [panel][keys / 4][column][2]
//
// bf16 is one part, and its pairs are neighbours. Floats are three parts
// (FloatParts.h), and their queries are scaled. Their pairs are a vector apart,
// so that two vectors make a vector of words.

#ifndef ANABRANCH_KERNELS_ATTENTION_PAIRPACKING_H
#define ANABRANCH_KERNELS_ATTENTION_PAIRPACKING_H

#include "kernels/attention/AttentionContext.h"

namespace anabranch {
namespace kernels {

class PairPacking {
public:
  static constexpr int64_t perWord = AttentionBlocking::perWord;
  /// Which keys of a word the block has. `Counted` asks the block's count.
  enum class Pair { Both, First, Counted };

  explicit PairPacking(AttentionContext &attention)
      : attention(attention), lanes(attention.lanes), memory(attention.memory) {
  }

  /// Packs the tile's queries, with zeros after the head.
  void packQueries();
  /// Packs the first `count` keys of a block.
  void packKeys(const AttentionContext::KeyBlock &keys, mlir::Value count);
  /// Packs a block's values, with zeros up to `words` pairs of keys, of which
  /// there are whole groups of neighbours.
  void packValues(const AttentionContext::KeyBlock &keys, mlir::Value words);

  /// Stores the weights of two neighbouring vectors of keys as parts. `place`
  /// is that of the first one among the scores.
  void storeWeights(mlir::Value low, mlir::Value high, mlir::Value place);

  /// A vector of words of bf16, from a column on, of a row of query, key or
  /// value.
  mlir::Value words(mlir::Value tensor, mlir::Value row, int64_t column);
  /// A vector of pairs of bf16, from a column on, of two keys' values. Keys
  /// after the block have zeros.
  mlir::Value valuePairs(const AttentionContext::KeyBlock &keys,
                         mlir::Value word, int64_t column,
                         Pair pair = Pair::Counted);

private:
  AttentionContext &attention;
  LaneBuilder &lanes;
  const TypedMemory &memory;

  int64_t keyColumns() const { return attention.blocking.keyColumns(); }
  int64_t valueColumns() const { return attention.blocking.valueColumns(); }
  mlir::Value halves(mlir::Value tensor, mlir::Value row, int64_t column);
  mlir::Value floats(mlir::Value tensor, mlir::Value row, int64_t column);
  mlir::Value valueRow(mlir::Value key, int64_t column);
  mlir::Value countedRow(const AttentionContext::KeyBlock &keys,
                         mlir::Value number, int64_t column);
  void storeQueryWords(mlir::Value row, int64_t column, mlir::Value at);
  void storeKeyWords(mlir::ArrayRef<mlir::Value> rows, int64_t column,
                     mlir::Value at);
  void storeKeyMatrices(mlir::ArrayRef<mlir::Value> rows, int64_t column,
                        mlir::Value at);
  void storeValueWords(const AttentionContext::KeyBlock &keys, mlir::Value word,
                       int64_t column, mlir::Value at);
  void storeParts(mlir::Value low, mlir::Value high, mlir::Value to,
                  mlir::Value at, int64_t partWords);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_ATTENTION_PAIRPACKING_H
