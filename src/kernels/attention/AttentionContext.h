//===- AttentionContext.h - what attention's emitters share -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The state of a function of the kernel while its body is being written: the
// sizes of the attention as values, the current tile, and its scratch memory.

#ifndef ANABRANCH_KERNELS_ATTENTION_ATTENTIONCONTEXT_H
#define ANABRANCH_KERNELS_ATTENTION_ATTENTIONCONTEXT_H

#include "kernels/attention/AttentionBlocking.h"
#include "kernels/emit/Evaluator.h"
#include "kernels/emit/TypedMemory.h"

namespace anabranch {
namespace kernels {

class AttentionContext {
public:
  AttentionContext(ir::AttentionOp op, const AttentionBlocking &blocking,
                   KernelFunction &function);

  ir::AttentionOp op;
  const AttentionBlocking &blocking;
  KernelFunction &function;
  LaneBuilder &lanes;
  /// Scratch memory, with elements of the type of the sums.
  const TypedMemory memory;
  /// Set only in a tile function.
  Evaluator *evaluator = nullptr;

  //===-- The whole attention --------------------------------------------===//

  int64_t rank;
  mlir::Value queryCount, keyCount;
  mlir::Value headCount, blockCount; ///< tiles are blocks of queries of heads

  mlir::Value tileCount();

  //===-- The tile -------------------------------------------------------===//

  struct Tile {
    /// The position of the tile's head, or of its keys' head if it has several
    /// heads.
    mlir::SmallVector<mlir::Value> batch;
    /// The queries of the tile. The rows of one head follow the rows of
    /// another.
    mlir::Value firstQuery, queryEnd;
    /// The keys that some query of the tile may see.
    mlir::Value firstKey, keyEnd;
    /// Whether the mask shows each query one run of keys and changes no score
    /// of it, as i1. Only where VisibleKeys searches the mask.
    mlir::Value hasRuns;
  };
  Tile tile;
  void enterTile(mlir::Value number);

  /// The keys that are processed at once.
  struct KeyBlock {
    mlir::Value first, count;
  };

  /// The queries whose scores are held at once.
  struct RowBlock {
    mlir::Value first, end;
  };

  /// The scratch memory of a tile, as pointers to first elements.
  struct Scratch {
    mlir::Value queries, keys, values;
    mlir::Value scores;  ///< [query][key of the block], then the weights
    mlir::Value weights; ///< the same as pairs of bf16
    mlir::Value output;  ///< [query][value]
    mlir::Value maxima;  ///< [query]
    mlir::Value sums;    ///< [query][lane], which make up the row's sum
    /// [query]: the maximum before a block, then the factor for sum and output.
    mlir::Value factors;
    mlir::Value begins, ends; ///< [query], as i32: of the runs of keys it sees
  };
  Scratch scratch;
  int64_t scratchElements();
  void placeScratch(mlir::Value memory);

  //===-- Elements -------------------------------------------------------===//

  /// The index of an element of query, key, value, result or mask. A batch
  /// dimension of size one repeats. So does each such dimension of the mask,
  /// whose dimensions are aligned at the end.
  mlir::SmallVector<Lanes> position(mlir::Value tensor, Lanes row,
                                    Lanes column);
  /// An element, converted to the type of the sums.
  Lanes element(mlir::Value tensor, Lanes row, Lanes column);
  /// Whether keys or values lie in a larger tensor, each row at a position that
  /// a table holds.
  const bool gathersKeys, gathersValues;
  /// Computes the positions of rows of keys or values. Elements of these rows
  /// that are read in the same scope, or in scopes inside it, share them.
  /// Without a table it does nothing.
  void placeRows(mlir::Value tensor, mlir::ValueRange rows);
  /// The query of a row, counted within its head.
  mlir::Value queryOf(mlir::Value row);
  /// Whether each query sees all keys, and the keys fill whole steps of scores.
  bool seesAllKeys();
  /// A vector of keys. After the last key it repeats that key, whose scores
  /// are masked.
  mlir::SmallVector<mlir::Value> keysFrom(mlir::Value first);

  /// The size of the last dimension of query, key, value or result.
  static int64_t headSize(mlir::Value tensor);
  /// The mask of the lanes from `at` on that are inside `size`; null if all
  /// lanes always are.
  mlir::Value headMask(int64_t size, mlir::Value at);

  mlir::Value scalar(double value);
  mlir::Value vector(double value);

private:
  mlir::Value tilesAlong(int64_t dimension);
  bool sharesMaskRows();
  int64_t layOut(mlir::Value memory);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_ATTENTION_ATTENTIONCONTEXT_H
