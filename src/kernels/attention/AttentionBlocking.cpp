//===- AttentionBlocking.cpp - how attention is cut up --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention/AttentionBlocking.h"

#include "ir/Sizes.h"
#include "kernels/microkernel/FloatParts.h"
#include "kernels/microkernel/TileBlock.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

static constexpr int64_t partsOfF32 = 3;
/// Up to so many rows, no copy of keys and values pays, and registers hold a
/// part of each row's output.
static constexpr int64_t mostStreamed = 8;

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
  way = Way::Tiles;
  usesDots = usesMatrices = false;
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
  vectors.way = Way::Packed;
  vectors.parts = 1;
  vectors.rows = rowsOfBlock;
  vectors.scoreRows = queries;
  return vectors;
}

/// Cycles of the products of a tile's rows with one key and value, for each
/// element of a head, and of the copies of that element.
double AttentionBlocking::cyclesOfKey(int64_t used,
                                      const native::TargetInfo &target) const {
  const machine::CpuModel &cpu = target.model;
  double rate = target.rate(usesDots ? native::Multiply::DotBF16
                                     : native::Multiply::FmaF32);
  if (usesMatrices && rows > 1)
    rate *= MatrixBlock::words;
  double bytes = element.getIntOrFloatBitWidth() / (usesDots ? 16.0 : 8.0);
  if (isStreamed())
    return std::max(double(used) / rate, bytes / cpu.l2Load);
  if (!usesTiles())
    return double(llvm::alignTo(used, rows)) / rate + cpu.cycles.copiedKey;
  rate = target.rate(native::Multiply::TileBF16) * cpu.cycles.shareOfParts;
  double products = double(llvm::alignTo(used, scoreRows)) / rate;
  return hasParts() ? products * double(productsOfParts(parts, parts)) +
                          double(parts) * cpu.cycles.copiedKeyPart
                    : products + cpu.cycles.copiedKey;
}

double AttentionBlocking::cycles(ir::AttentionOp op,
                                 const native::TargetInfo &target) const {
  auto sizeOf = [](int64_t size) {
    return ShapedType::isDynamic(size) ? ir::typicalSize
                                       : std::max<int64_t>(size, 1);
  };
  ArrayRef<int64_t> result =
      cast<RankedTensorType>(op.getResult().getType()).getShape();
  int64_t keyCount =
      cast<RankedTensorType>(op.getKey().getType()).getShape().end()[-2];
  int64_t length = sizeOf(result.end()[-2]);
  int64_t used = std::min(length * group, queries);
  double scores = double(length) * double(sizeOf(keyCount));
  for (int64_t size : result.drop_back(2))
    scores *= double(sizeOf(size));
  double ofScore =
      double(head + valueHead) * cyclesOfKey(used, target) / double(used);
  if (hasParts())
    ofScore += target.model.cycles.splitWeight;
  return scores * ofScore;
}

/// The most queries of a tile: each tile packs its keys and values, and workers
/// without a tile cost more.
static int64_t mostQueries(ir::AttentionOp op) {
  constexpr int64_t enoughTiles = 16, fewest = 64;
  ArrayRef<int64_t> result =
      cast<RankedTensorType>(op.getResult().getType()).getShape();
  int64_t heads = 1;
  for (int64_t size : result.drop_back(2))
    heads *= ShapedType::isDynamic(size) ? 1 : size;
  for (int64_t queries : {4 * fewest, 2 * fewest})
    if (heads * llvm::divideCeil(result.end()[-2], queries) >= enoughTiles)
      return queries;
  return fewest;
}

/// The values of a block stay in the first level of cache, beside the weights
/// of some rows. Longer blocks change maxima and sums less often.
void AttentionBlocking::chooseKeys(int64_t keyCount,
                                   const native::TargetInfo &target) {
  constexpr int64_t mostKeys = 256;
  int64_t bytes = valueHead * element.getIntOrFloatBitWidth() / 8;
  if (usesDots)
    bytes /= perWord;
  int64_t fitting = target.model.l1Bytes * 2 / 3 / std::max<int64_t>(bytes, 1);
  fitting = std::min(fitting, mostKeys);
  int64_t step = vectorsOfStep * lanes;
  if (!ShapedType::isDynamic(keyCount))
    fitting = std::min<int64_t>(fitting, llvm::alignTo(keyCount, step));
  keys = std::max<int64_t>(step, llvm::alignDown(fitting, step));
}

/// The blocks of a tile's rows have equal sizes.
void AttentionBlocking::chooseScoreRows() {
  constexpr int64_t usual = 32;
  int64_t blocks = llvm::divideCeil(queries, usual);
  scoreRows = llvm::alignTo(llvm::divideCeil(queries, blocks), rows);
}

/// Blocks of panels, which any attention can have.
AttentionBlocking AttentionBlocking::packed(ir::AttentionOp op,
                                            const native::TargetInfo &target) {
  constexpr int64_t fewQueries = 60;
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
    int64_t count =
        std::max<int64_t>(1, llvm::divideCeil(length, mostQueries(op)));
    chosen.queries =
        std::max<int64_t>(chosen.rows, llvm::divideCeil(length, count));
    if (length > 0 && length < chosen.rows)
      chosen.rows = length;
    chosen.queries = llvm::alignTo(chosen.queries, chosen.rows);
  }
  chosen.keyVectors = most;
  chosen.head = llvm::alignTo(query.getShape().back(), chosen.lanes);
  int64_t vectors = llvm::divideCeil(value.getShape().back(), chosen.lanes);
  chosen.valueVectors = std::max<int64_t>(1, std::min(vectors, most));
  chosen.valueHead =
      llvm::alignTo(value.getShape().back(), chosen.valueColumns());
  chosen.usesDots =
      areAll<BFloat16Type>(op) && target.rate(native::Multiply::DotBF16) >
                                      target.rate(native::Multiply::FmaF32);
  if (chosen.usesDots)
    chosen.head = llvm::alignTo(chosen.head, perWord * chosen.lanes);
  chosen.chooseKeys(
      cast<RankedTensorType>(op.getKey().getType()).getShape().end()[-2],
      target);
  chosen.usesMatrices =
      chosen.usesDots && chosen.lanes == MatrixBlock::lanes &&
      target.isa().hasMatrices(native::Isa::MatrixProduct::BF16);
  if (chosen.usesMatrices && chosen.rows % 2 && chosen.rows > 1) {
    ++chosen.rows;
    chosen.queries = llvm::alignTo(chosen.queries, chosen.rows);
  }
  chosen.chooseScoreRows();
  return chosen;
}

std::optional<std::string>
AttentionBlocking::refuseStreaming(int64_t length) const {
  // So many vectors of a head are multiplied without a loop.
  constexpr int64_t longest = 16;
  if (ShapedType::isDynamic(length))
    return "its number of queries is not known";
  if (length == 0)
    return "it has no queries";
  if (length > mostStreamed)
    return "it has " + std::to_string(length) +
           " queries; a copy of keys and values costs less for more than " +
           std::to_string(mostStreamed);
  if (head > longest * lanes || valueHead > longest * lanes)
    return "a head has more than " + std::to_string(longest) + " vectors";
  return std::nullopt;
}

void AttentionBlocking::chooseStreams(ir::AttentionOp op) {
  // Scores and keys of a block.
  constexpr int64_t scoresAtOnce = 2048, mostKeys = 512;
  int64_t length =
      cast<RankedTensorType>(op.getQuery().getType()).getShape().end()[-2];
  auto value = cast<RankedTensorType>(op.getValue().getType());
  way = Way::Streamed;
  usesMatrices = false;
  group = chooseGroup(op, length, mostStreamed);
  rows = queries = scoreRows = group * length;
  valueHead = llvm::alignTo(value.getShape().back(), lanes);
  keys = llvm::alignTo(std::min(scoresAtOnce / rows, mostKeys), keyColumns());
}

/// Why tile registers cannot multiply the operands.
static std::optional<std::string>
refuseTiles(ir::AttentionOp op, const native::TargetInfo &target) {
  if (!target.isa().has(native::Multiply::TileBF16) ||
      !target.isa().roundsToBF16())
    return "the target has no tile registers for floats";
  if (!areAll<BFloat16Type>(op) && !areAll<Float32Type>(op))
    return "its operands are neither all bf16 nor all f32";
  return std::nullopt;
}

std::optional<AttentionBlocking>
AttentionBlocking::choose(ir::AttentionOp op, const native::TargetInfo &target,
                          Way way, std::string &why) {
  AttentionBlocking chosen = packed(op, target);
  int64_t length =
      cast<RankedTensorType>(op.getQuery().getType()).getShape().end()[-2];
  std::optional<std::string> refusal;
  if (way == Way::Streamed)
    refusal = chosen.refuseStreaming(length);
  if (way == Way::Tiles)
    refusal = refuseTiles(op, target);
  if (refusal) {
    why = *refusal;
    return std::nullopt;
  }
  if (way == Way::Streamed)
    chosen.chooseStreams(op);
  if (way == Way::Tiles) {
    chosen.parts = areAll<Float32Type>(op) ? partsOfF32 : 1;
    chosen.chooseTileBlocks(op);
  }
  return chosen;
}

} // namespace kernels
} // namespace anabranch
