//===- AttentionEmitter.h - code of an attention kernel ---------*- C++ -*-===//
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
//     pack the keys and values
//     scores = queries * keys^T                      (micro-kernel)
//     for each row: mask; raise the maximum; scores = exp(scores - maximum);
//                   rescale the row's sum and output to the new maximum
//     output += scores * values                      (micro-kernel)
//   output / sum goes through the epilogue
//
// For a query or a few, keys and values are read where they are (AttentionFew).
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_ATTENTION_ATTENTIONEMITTER_H
#define ANABRANCH_CODEGEN_ATTENTION_ATTENTIONEMITTER_H

#include "codegen/emit/Epilogue.h"
#include "codegen/gemm/MicroKernel.h"
#include "ir/Anabranch.h"

namespace anabranch {
namespace codegen {

struct AttentionTiling {
  mlir::Type element; ///< of scores and sums: f32 or f64
  int64_t lanes;
  int64_t rows;         ///< of a micro-kernel
  int64_t keyVectors;   ///< of a micro-kernel for the scores
  int64_t valueVectors; ///< of a micro-kernel for the output
  int64_t queries;      ///< of a tile, a multiple of `rows`
  int64_t keys;         ///< of a block, a multiple of the columns of scores
  int64_t head;         ///< of query and key, padded to whole vectors
  int64_t valueHead;    ///< padded to whole panels
  bool isFew = false;   ///< `rows` are all queries of a tile
  int64_t group = 1;    ///< heads of a tile, which share their keys

  int64_t keyColumns() const { return lanes * keyVectors; }
  int64_t valueColumns() const { return lanes * valueVectors; }

  static AttentionTiling choose(ir::AttentionOp op, const TargetInfo &target);
};

class TileFootprint;

class AttentionEmitter {
public:
  AttentionEmitter(ir::AttentionOp op, const AttentionTiling &tiling,
                   KernelFrame &frame);

  mlir::Value tiles();
  mlir::Value scratchBytes();
  void emitTile(Evaluator &evaluator, llvm::ArrayRef<Epilogue> epilogues,
                mlir::Value scratch, mlir::Value tile);

  /// What the tile touches.
  void emitFootprint(TileFootprint &footprint,
                     llvm::ArrayRef<Epilogue> epilogues, mlir::Value tile);

private:
  using Value = mlir::Value;

  ir::AttentionOp op;
  const AttentionTiling &t;
  KernelFrame &frame;
  LaneBuilder &lanes;
  Evaluator *evaluator = nullptr;
  int64_t rank;
  Value queryCount, keyCount, headCount, blocks;
  /// The tile: its head's position, or that of its keys' head if it has
  /// several; its queries, those of one head after the other's; and the keys
  /// they see.
  mlir::SmallVector<Value> batch;
  Value firstQuery, queryEnd, keyEnd;
  /// Scratch.
  Value queries, keys, values, scores, output, maxima, sums;
  mlir::func::FuncOp scoreBlock, outputBlock;

  Value tilesAlong(int64_t dimension);
  void findTile(Value tile);
  MicroKernel scoreKernel() const;
  MicroKernel outputKernel() const;
  int64_t layOut(Value scratch);

  mlir::SmallVector<Lanes> position(Value tensor, Lanes row, Lanes column);
  Value queryOf(Value row);
  Lanes element(Value tensor, Lanes row, Lanes column);
  Value pointerTo(Value memory, Value offset);
  Value loadVector(Value memory, Value offset);
  Value loadScalar(Value memory, Value offset);
  void storeValue(Value value, Value memory, Value offset);
  Value number(double value, bool isVector);
  Value headMask(int64_t size, Value at);

  void packQueries();
  mlir::SmallVector<Value> keysFrom(Value first);
  void packKeys(Value firstKey);
  void packValues(Value firstKey, Value count);
  void clearOutput();
  void multiply(Value count, bool isScore);
  // AttentionFew.cpp
  void scoreFew(Value firstKey, Value count);
  void mixFew(Value firstKey, Value count);
  void scoreKeys(Value group, llvm::ArrayRef<Value> keys);
  using Range = std::pair<int64_t, int64_t>;
  void mixRows(Value firstRow, int64_t rows, Range columns, Value firstKey,
               Value count);
  mlir::SmallVector<Value> mixKey(Value firstRow, int64_t rows, Range columns,
                                  Value firstKey, Value number,
                                  mlir::ValueRange before);
  Value forEachVector(Value count, Value initial,
                      llvm::function_ref<Value(Value at, Value carried)> body);
  void softmaxRow(Value row, Value firstKey, Value count);
  Value maskScores(Value scores, Value row, Value key);
  void rescale(Value row, Value factor);
  void finish(llvm::ArrayRef<Epilogue> epilogues);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_ATTENTION_ATTENTIONEMITTER_H
