//===- AttentionBlocking.cpp - how attention is cut up --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention/AttentionBlocking.h"

#include "kernels/microkernel/FloatParts.h"
#include "kernels/microkernel/TileBlock.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

static constexpr int64_t partsOfF32 = 3;
/// Measured: cycles to copy an element of a key or a value, and each part of
/// it, and to split a weight; and the share of the registers' rate that
/// products of parts reach, relative to that of vectors.
static constexpr double copyCycles = 0.3, partCycles = 0.33, splitCycles = 0.5,
                        partShare = 0.65;
/// The share of the vectors' cycles below which parts pay.
static constexpr double leastGain = 0.9;

/// Whether a tensor's floats are converted from integers where they are read.
static bool comesFromIntegers(Value tensor) {
  SetVector<Operation *> producers;
  getBackwardSlice(tensor, &producers);
  return llvm::any_of(producers, [](Operation *producer) {
    return producer
        ->walk([](Operation *op) {
          return isa<arith::SIToFPOp, arith::UIToFPOp>(op)
                     ? WalkResult::interrupt()
                     : WalkResult::advance();
        })
        .wasInterrupted();
  });
}

/// The number of heads in a tile of few queries. All of them share their keys,
/// so that these are read once, and they have at most `most` rows. Where this
/// would leave few tiles, a tile has fewer heads: workers without a tile cost
/// more than keys that another core has in its cache. Keys that are converted
/// from integers cost more, so that fewer tiles are enough.
static int64_t chooseGroup(ir::AttentionOp op, int64_t length, int64_t most) {
  constexpr int64_t manyTiles = 8, fewTiles = 2;
  int64_t enoughTiles = comesFromIntegers(op.getKey()) ? fewTiles : manyTiles;
  ArrayRef<int64_t> result =
      cast<RankedTensorType>(op.getResult().getType()).getShape();
  ArrayRef<int64_t> key =
      cast<RankedTensorType>(op.getKey().getType()).getShape();
  if (!op.getGrouped() || ShapedType::isDynamic(result.end()[-3]) ||
      ShapedType::isDynamic(key.end()[-3]))
    return 1;
  int64_t heads = 1;
  for (int64_t size : result.drop_back(2))
    heads *= ShapedType::isDynamic(size) ? manyTiles : size;
  int64_t sharing = result.end()[-3] / key.end()[-3];
  int64_t group = std::clamp<int64_t>(most / length, 1, sharing);
  while (sharing % group != 0 || (group > 1 && heads / group < enoughTiles))
    --group;
  return group;
}

/// Whether query, key and value have elements of one type.
template <typename TypeT> static bool areAll(ir::AttentionOp op) {
  return llvm::all_of(ValueRange{op.getQuery(), op.getKey(), op.getValue()},
                      [](Value value) {
                        auto type = cast<RankedTensorType>(value.getType());
                        return isa<TypeT>(type.getElementType());
                      });
}

/// Tiles have many queries, since each tile copies keys and values to the
/// layout of tile registers; of parts, a copy takes longer. Their weights and a
/// block's scores stay in the first two levels of cache.
void AttentionBlocking::chooseTileBlocks(ir::AttentionOp op) {
  constexpr int64_t enoughTiles = 16, mostKeys = 128, keysOfVectors = 64;
  int64_t manyQueries = hasParts() ? 256 : 128, someQueries = manyQueries / 2;
  usesTiles = true;
  usesDots = false;
  keyVectors = valueVectors = tileColumns / lanes;
  auto result = cast<RankedTensorType>(op.getResult().getType());
  int64_t length = result.getShape().end()[-2];
  int64_t keyCount =
      cast<RankedTensorType>(op.getKey().getType()).getShape().end()[-2];
  bool isShort =
      !ShapedType::isDynamic(length) && length <= TileBlock::rows / 2;
  scoreRows = isShort ? TileBlock::rows / 2 : TileBlock::rows;
  int64_t tiles = llvm::divideCeil(length, manyQueries);
  for (int64_t size : result.getShape().drop_back(2))
    tiles *= ShapedType::isDynamic(size) ? 1 : size;
  queries = tiles >= enoughTiles ? manyQueries : someQueries;
  if (!ShapedType::isDynamic(length))
    queries = std::min(queries, int64_t(llvm::alignTo(
                                    std::max<int64_t>(length, 1), scoreRows)));
  keys = mostKeys;
  if (!ShapedType::isDynamic(keyCount))
    keys = std::min(keys, int64_t(llvm::alignTo(std::max<int64_t>(keyCount, 1),
                                                keysOfVectors)));
  head = llvm::alignTo(head, tileColumns);
  valueHead = llvm::alignTo(valueHead, tileColumns);
}

AttentionBlocking AttentionBlocking::withoutParts() const {
  // A divisor of the rows of tile registers, and so of a tile's queries.
  constexpr int64_t rowsOfBlock = 8;
  AttentionBlocking vectors = *this;
  vectors.usesTiles = false;
  vectors.parts = 1;
  vectors.rows = rowsOfBlock;
  vectors.scoreRows = queries;
  return vectors;
}

/// Cycles that a query's products with a key take, and its share of the copies
/// of that key and its value.
double
AttentionBlocking::cyclesOfScore(ir::AttentionOp op,
                                 const native::TargetInfo &target) const {
  int64_t length =
      cast<RankedTensorType>(op.getQuery().getType()).getShape().end()[-2];
  int64_t used =
      ShapedType::isDynamic(length) ? queries : std::min(length, queries);
  auto perQuery = [&](double cycles) {
    return double(head + valueHead) * cycles /
           double(std::max<int64_t>(used, 1));
  };
  if (!hasParts())
    return perQuery(double(llvm::alignTo(used, rows)) /
                        target.rate(native::Multiply::FmaF32) +
                    copyCycles);
  double rate = target.rate(native::Multiply::TileBF16) * partShare;
  return perQuery(double(llvm::alignTo(used, scoreRows) *
                         productsOfParts(parts, parts)) /
                      rate +
                  double(parts) * partCycles) +
         splitCycles;
}

AttentionBlocking AttentionBlocking::choose(ir::AttentionOp op,
                                            const native::TargetInfo &target) {
  constexpr int64_t fewQueries = 60;
  // `fewest`: up to so many rows, no copy of keys and values pays. `longest`:
  // so many vectors of a head are multiplied without a loop. The others: scores
  // and keys of a block.
  constexpr int64_t fewest = 8, longest = 16, scoresAtOnce = 2048,
                    mostKeys = 512;
  auto query = cast<RankedTensorType>(op.getQuery().getType());
  auto value = cast<RankedTensorType>(op.getValue().getType());
  Builder b(op.getContext());
  AttentionBlocking chosen;
  bool isDouble = query.getElementType().isF64();
  chosen.element = isDouble ? b.getF64Type() : b.getF32Type();
  chosen.lanes = target.lanes(isDouble ? 64 : 32);
  int64_t most = target.isa().vectorRegisters() > 16 ? 4 : 2;
  int64_t length = query.getShape().end()[-2];
  chosen.rows = 6;
  chosen.queries = fewQueries;
  if (!ShapedType::isDynamic(length)) {
    int64_t count = std::max<int64_t>(1, llvm::divideCeil(length, 64));
    chosen.queries =
        std::max<int64_t>(chosen.rows, llvm::divideCeil(length, count));
    if (length > 0 && length < chosen.rows)
      chosen.rows = length;
    chosen.queries = llvm::alignTo(chosen.queries, chosen.rows);
  }
  chosen.keyVectors = most;
  chosen.keys = llvm::alignTo(64, chosen.keyColumns());
  chosen.head = llvm::alignTo(query.getShape().back(), chosen.lanes);
  int64_t valueSize = value.getShape().back();
  int64_t vectors = llvm::divideCeil(valueSize, chosen.lanes);
  chosen.valueVectors = std::max<int64_t>(1, std::min(vectors, most));
  chosen.valueHead = llvm::alignTo(valueSize, chosen.valueColumns());
  chosen.usesDots =
      areAll<BFloat16Type>(op) && target.rate(native::Multiply::DotBF16) >
                                      target.rate(native::Multiply::FmaF32);
  if (chosen.usesDots)
    chosen.head = llvm::alignTo(chosen.head, perWord * chosen.lanes);
  chosen.isStreamed = length > 0 && length <= fewest &&
                      chosen.head <= longest * chosen.lanes &&
                      chosen.valueHead <= longest * chosen.lanes;
  if (chosen.isStreamed) {
    chosen.group = chooseGroup(op, length, fewest);
    chosen.rows = chosen.queries = chosen.group * length;
    chosen.valueHead = llvm::alignTo(valueSize, chosen.lanes);
    chosen.keys = llvm::alignTo(std::min(scoresAtOnce / chosen.rows, mostKeys),
                                chosen.keyColumns());
  }
  chosen.scoreRows = chosen.queries;
  if (chosen.isStreamed || !target.isa().has(native::Multiply::TileBF16) ||
      !target.isa().roundsToBF16())
    return chosen;
  AttentionBlocking tiles = chosen;
  if (areAll<Float32Type>(op))
    tiles.parts = partsOfF32;
  tiles.chooseTileBlocks(op);
  if (areAll<BFloat16Type>(op) ||
      (tiles.hasParts() && tiles.cyclesOfScore(op, target) <
                               leastGain * chosen.cyclesOfScore(op, target)))
    return tiles;
  return chosen;
}

} // namespace kernels
} // namespace anabranch
