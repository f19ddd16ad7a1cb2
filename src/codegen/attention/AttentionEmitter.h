//===- AttentionEmitter.h - the loops of an attention's tile ----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A tile is a block of queries of one head:
//
//   pack the queries, scaled
//   for each block of keys
//     scores = queries * keys^T      (PackedAttention or StreamedAttention)
//     for each row: scores to weights               (OnlineSoftmax)
//     output += weights * values     (PackedAttention or StreamedAttention)
//   output / sum goes through the epilogue
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_ATTENTION_ATTENTIONEMITTER_H
#define ANABRANCH_CODEGEN_ATTENTION_ATTENTIONEMITTER_H

#include "codegen/attention/BlockProducts.h"
#include "codegen/attention/OnlineSoftmax.h"
#include "codegen/emit/Epilogue.h"

namespace anabranch {
namespace codegen {

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

  void packQueries();
  /// Goes over the keys.
  void emitBlocks(BlockProducts &products, OnlineSoftmax &softmax);
  void finish(OnlineSoftmax &softmax, llvm::ArrayRef<Epilogue> epilogues);
  mlir::Value toResult(mlir::Value vector);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_ATTENTION_ATTENTIONEMITTER_H
