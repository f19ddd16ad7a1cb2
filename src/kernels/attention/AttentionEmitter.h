//===- AttentionEmitter.h - the loops of an attention's tile ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A tile is a block of queries of one head:
//
//   pack the queries, scaled
//   for each block of keys
//     for each block of rows
//       scores = queries * keys^T                   (BlockProducts)
//       scores to weights                           (OnlineSoftmax)
//       output += weights * values                  (BlockProducts)
//   output / sum goes through the epilogue
//
// Products of parts may make a NaN of an infinity (FloatParts.h). A tile whose
// output is not finite is computed again without parts. If it still is not, and
// a mask hides keys, it is computed once more, row by row, from the keys that
// each row sees.

#ifndef ANABRANCH_KERNELS_ATTENTION_ATTENTIONEMITTER_H
#define ANABRANCH_KERNELS_ATTENTION_ATTENTIONEMITTER_H

#include "kernels/attention/BlockProducts.h"
#include "kernels/attention/OnlineSoftmax.h"
#include "kernels/emit/Epilogue.h"

#include <memory>

namespace anabranch {
namespace kernels {

class AttentionEmitter {
public:
  explicit AttentionEmitter(AttentionContext &attention)
      : attention(attention), lanes(attention.lanes), memory(attention.memory) {
  }

  /// The scratch bytes that a tile needs.
  mlir::Value scratchBytes();

  void emitTile(Evaluator &evaluator, llvm::ArrayRef<Epilogue> epilogues,
                mlir::Value scratch, mlir::Value tile);

private:
  AttentionContext &attention;
  LaneBuilder &lanes;
  const TypedMemory &memory;

  std::unique_ptr<BlockProducts> chooseProducts();
  void checkHiddenRows();
  mlir::Value hasOnlyFinite();
  void repeatWithoutParts(mlir::Value scratch);
  /// Runs `body` unless the output is finite.
  void unlessFinite(llvm::function_ref<void()> body);
  /// Emits the loop over blocks of keys.
  void emitBlocks(BlockProducts &products);
  void emitRowBlocks(BlockProducts &products, OnlineSoftmax &softmax,
                     const AttentionContext::KeyBlock &keys);
  void emitRows(BlockProducts &products, OnlineSoftmax &softmax,
                const AttentionContext::RowBlock &rows,
                const AttentionContext::KeyBlock &keys);
  void finish(OnlineSoftmax &softmax, llvm::ArrayRef<Epilogue> epilogues);
  mlir::Value toResult(mlir::Value vector);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_ATTENTION_ATTENTIONEMITTER_H
