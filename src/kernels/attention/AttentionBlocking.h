//===- AttentionBlocking.h - how attention is cut up ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_ATTENTION_ATTENTIONBLOCKING_H
#define ANABRANCH_KERNELS_ATTENTION_ATTENTIONBLOCKING_H

#include "ir/Anabranch.h"
#include "kernels/microkernel/MatrixBlock.h"
#include "native/target/Target.h"

namespace anabranch {
namespace kernels {

/// How an attention is cut up for a processor. A tile is a block of queries of
/// one head, or all queries of some heads. It goes over blocks of keys.
struct AttentionBlocking {
  mlir::Type element; ///< of scores and sums: f32 or f64
  int64_t lanes;
  int64_t rows;         ///< of a micro-kernel
  int64_t keyVectors;   ///< of a micro-kernel for the scores
  int64_t valueVectors; ///< of a micro-kernel for the output
  int64_t queries;      ///< of a tile, a multiple of `rows`
  int64_t keys;         ///< of a block, a multiple of the columns of scores
  int64_t head;         ///< of query and key, padded to whole vectors
  int64_t valueHead;    ///< padded to whole panels
  /// Rows whose scores are held at once: a tile has one block or several of
  /// them.
  int64_t scoreRows;
  /// How keys and values are read: in place, in panels that vectors multiply,
  /// or in panels of tile registers.
  enum class Way { Streamed, Packed, Tiles };
  Way way = Way::Packed;
  bool usesDots = false; ///< an instruction multiplies pairs of bf16
  /// One multiplies two words of two rows and of two columns (MatrixBlock.h).
  bool usesMatrices = false;
  int64_t group = 1; ///< heads of a tile, which share keys
  /// Of an element that tile registers multiply: three of f32 (FloatParts.h).
  int64_t parts = 1;

  /// Columns of a block of tile registers, and depths of one step.
  static constexpr int64_t tileColumns = 32;

  /// Elements of a word of queries, keys and values in scratch memory, if words
  /// hold pairs of bf16.
  static constexpr int64_t perWord = 2;
  bool isStreamed() const { return way == Way::Streamed; }
  bool usesTiles() const { return way == Way::Tiles; }
  bool multipliesPairs() const { return usesTiles() || usesDots; }
  bool hasParts() const { return parts > 1; }
  /// Words of a column that are neighbours in a panel.
  int64_t wordsAtOnce() const { return usesMatrices ? MatrixBlock::words : 1; }

  /// Words of a part in scratch memory.
  int64_t queryWords() const { return inWords(queries * head); }
  int64_t keyWords() const { return inWords(keys * head); }
  int64_t valueWords() const { return inWords(keys * valueHead); }
  int64_t weightWords() const { return inWords(scoreRows * keys); }

  int64_t keyColumns() const { return lanes * keyVectors; }
  int64_t valueColumns() const { return lanes * valueVectors; }
  /// The number of keys whose scores become weights without a loop. A block has
  /// whole steps.
  static constexpr int64_t vectorsOfStep = 4;
  int64_t keysOfStep() const { return std::min(keys, vectorsOfStep * lanes); }

  /// None, and why, if this way cannot compute the attention.
  static std::optional<AttentionBlocking>
  choose(ir::AttentionOp op, const native::TargetInfo &target, Way way,
         std::string &why);
  /// The same tiles for vectors.
  AttentionBlocking withoutParts() const;

  /// Estimated cycles of one core for all tiles. A size that is not known
  /// counts as ir::typicalSize.
  double cycles(ir::AttentionOp op, const native::TargetInfo &target) const;

private:
  int64_t inWords(int64_t elements) const {
    return multipliesPairs() ? elements / perWord : elements;
  }
  static AttentionBlocking packed(ir::AttentionOp op,
                                  const native::TargetInfo &target);
  std::optional<std::string> refuseStreaming(int64_t length) const;
  void chooseKeys(int64_t keyCount, const native::TargetInfo &target);
  void chooseScoreRows();
  void chooseStreams(ir::AttentionOp op);
  void chooseTileBlocks(ir::AttentionOp op);
  double cyclesOfKey(int64_t used, const native::TargetInfo &target) const;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_ATTENTION_ATTENTIONBLOCKING_H
