//===- ContractionEmitter.h - code of a contraction kernel ------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A tile is a strip of rows times one panel of columns:
//
//   for each block of the depth
//     pack the panel of the right operand: [depth][columns], contiguous
//     for each block of rows
//       multiply: accumulators in registers, panel from the cache
//       after the last depth: evaluate the epilogue on the accumulators
//
// What is copied is kept in words of the accumulators' size, each with `pair`
// depths. Right operands that need no copy are read where they are.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_GEMM_CONTRACTIONEMITTER_H
#define ANABRANCH_CODEGEN_GEMM_CONTRACTIONEMITTER_H

#include "codegen/emit/Evaluator.h"
#include "codegen/gemm/ContractionTiling.h"
#include "codegen/gemm/MicroKernel.h"
#include "codegen/gemm/TileBlock.h"

namespace anabranch {
namespace codegen {

class TileFootprint;

class ContractionEmitter {
public:
  ContractionEmitter(const Contraction &contraction,
                     const ContractionTiling &tiling, KernelFrame &frame);

  /// The number of tiles, and the scratch bytes that one needs.
  mlir::Value tiles();
  mlir::Value scratchBytes();

  void emitTile(Evaluator &evaluator, mlir::Value scratch, mlir::Value tile);

  /// What the tile touches.
  void emitFootprint(TileFootprint &footprint, mlir::Value tile);

private:
  using Value = mlir::Value;

  /// Where the tile is, and the rows and the depth that are being computed.
  struct Place {
    mlir::SmallVector<Value> batch;
    Value firstRow, endRow, firstPanel, endPanel;
    Value firstColumn; ///< of the panel that is being computed
  };

  const Contraction &c;
  const ContractionTiling &t;
  KernelFrame &frame;
  LaneBuilder &lanes;
  Evaluator *evaluator = nullptr;
  Value rowCount, columnCount, depthCount, batchCount;
  Value panels, panelGroups, strips;
  Value panelMemory, sumMemory, leftMemory, startMemory;
  Place place;

  /// True if one panel holds the whole depth.
  bool isOneBlock() const;
  bool rowsAreWhole() const;
  /// Words of a row of the packed left operand.
  Value leftWords();
  /// Depths in words.
  Value words(Value depth);
  int64_t panelElements() const { return t.depth / t.pair * t.columns(); }
  int64_t sumElements() const;
  int64_t startElements() const { return t.needsStarts() ? t.rowsPerTile : 0; }

  void findPlace(Value tile);
  Value loopSize(unsigned loop);
  mlir::SmallVector<Value> delinearize(mlir::ArrayRef<unsigned> loops,
                                       Value position);
  mlir::SmallVector<Lanes> point(Value row, Lanes column, Lanes depth);
  /// An element as it is in memory, and in the type of the accumulators.
  Lanes stored(const ContractionOperand &operand, mlir::ArrayRef<Lanes> point);
  Lanes element(const ContractionOperand &operand, mlir::ArrayRef<Lanes> point);
  /// Depths from `depth` on, a word for each lane and zero from `end` on.
  Value depthWords(const ContractionOperand &operand, Value row, Value column,
                   Value depth, Value end, bool whole);
  Value pointerTo(Value memory, Value offset);
  Value loadVector(Value memory, Value offset);
  void storeVector(Value vector, Value memory, Value offset);

  void multiplyPanel();
  Value columnMask(Value column, int64_t unit);
  /// Emits for a panel whose columns all exist, and for a last one that has
  /// fewer; for both where that is not known before the call.
  void wholeOrLast(llvm::function_ref<void(bool whole)> emit);
  Value panelOffset(Value depth, Value firstDepth);
  Value rightVector(Lanes column, Value depth, Value end, Value mask);
  Value rightPairs(Lanes column, Value depth, Value end);
  void packLeft();
  void packRight(Value firstDepth, Value depth);
  void packWindows(Value firstDepth, Value depth);
  void clearPanel(Value depth);
  void forEachDepth(mlir::Value first, mlir::Value end,
                    llvm::function_ref<void(mlir::Value)> body);
  void packPieces(Value column, Value stop, Value firstDepth, Value end);
  void packRightTransposed(Value firstDepth, Value depth);
  // DotProducts.cpp
  void multiplyRows();
  mlir::SmallVector<Value> dotStep(Value column, Value depth, Value end,
                                   bool whole, mlir::ValueRange sums);
  void fetchColumn(Value column, Value depth);
  Value leftWord(Value row, Value depth, Value end, bool whole);
  Value addLanes(Value vector);
  void storeStarts();
  Value startAt(Value row);
  Value loadStart(Value row);
  // MultiplyBlock.cpp
  mlir::func::FuncOp block, lastBlock;
  int64_t lastVectors() const;
  MicroKernel microKernel(int64_t vectors) const;
  TileBlock::Functions tileFunctions;
  void createTiles();
  void multiplyTiles(Value row, Value sums, Value right, Value firstDepth,
                     Value depth);
  void multiplyBlock(Value row, Value sums, Value right, Value rightStep,
                     Value firstDepth, Value depth);
  Value addressOf(Lanes loaded);
  std::pair<Value, Value> leftInPlace(Value row, Value firstDepth);
  std::pair<Value, Value> rightInPlace(Value firstDepth);
  bool leftStepIsUnit() const;

  void emitEpilogue(Value row, Value sums);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_GEMM_CONTRACTIONEMITTER_H
