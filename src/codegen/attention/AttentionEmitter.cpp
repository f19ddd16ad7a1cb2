//===- AttentionEmitter.cpp - code of an attention kernel -----------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/attention/AttentionEmitter.h"

#include "codegen/emit/Transpose.h"
#include "codegen/gemm/ContractionEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;

namespace anabranch {
namespace codegen {

static int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// The heads of a tile of few queries: as many as share their keys, so that
/// these are read once, and make no more than `most` rows.
static int64_t chooseGroup(ir::AttentionOp op, int64_t length, int64_t most) {
  ArrayRef<int64_t> result =
      cast<RankedTensorType>(op.getResult().getType()).getShape();
  ArrayRef<int64_t> key =
      cast<RankedTensorType>(op.getKey().getType()).getShape();
  if (!op.getGrouped() || ShapedType::isDynamic(result.end()[-3]) ||
      ShapedType::isDynamic(key.end()[-3]))
    return 1;
  int64_t sharing = result.end()[-3] / key.end()[-3];
  int64_t group = std::clamp<int64_t>(most / length, 1, sharing);
  while (sharing % group != 0)
    --group;
  return group;
}

AttentionTiling AttentionTiling::choose(ir::AttentionOp op,
                                        const TargetInfo &target) {
  constexpr int64_t fewQueries = 60;
  // Rows for which no copy of keys and values pays; vectors of a head that are
  // multiplied without a loop; scores and keys of a block.
  constexpr int64_t fewest = 8, longest = 16, scoresAtOnce = 2048,
                    mostKeys = 512;
  auto query = cast<RankedTensorType>(op.getQuery().getType());
  auto value = cast<RankedTensorType>(op.getValue().getType());
  Builder b(op.getContext());
  AttentionTiling t;
  bool isDouble = query.getElementType().isF64();
  t.element = isDouble ? b.getF64Type() : b.getF32Type();
  t.lanes = target.lanes(isDouble ? 64 : 32);
  int64_t most = target.avx512 ? 4 : 2;
  int64_t length = query.getShape().end()[-2];
  t.rows = 6;
  t.queries = fewQueries;
  if (!ShapedType::isDynamic(length)) {
    int64_t count = std::max<int64_t>(1, (length + 63) / 64);
    t.queries = std::max<int64_t>(t.rows, (length + count - 1) / count);
    if (length > 0 && length < t.rows)
      t.rows = length;
    t.queries = roundUp(t.queries, t.rows);
  }
  t.keyVectors = most;
  t.keys = roundUp(64, t.keyColumns());
  t.head = roundUp(query.getShape().back(), t.lanes);
  int64_t vectors = roundUp(value.getShape().back(), t.lanes) / t.lanes;
  t.valueVectors = std::max<int64_t>(1, std::min(vectors, most));
  t.valueHead = roundUp(value.getShape().back(), t.valueColumns());
  t.isFew = length > 0 && length <= fewest && t.head <= longest * t.lanes &&
            t.valueHead <= longest * t.lanes;
  if (t.isFew) {
    t.group = chooseGroup(op, length, fewest);
    t.rows = t.queries = t.group * length;
    t.valueHead = roundUp(value.getShape().back(), t.lanes);
    t.keys = roundUp(std::min(scoresAtOnce / t.rows, mostKeys), t.keyColumns());
  }
  return t;
}

AttentionEmitter::AttentionEmitter(ir::AttentionOp op,
                                   const AttentionTiling &tiling,
                                   KernelFrame &frame)
    : op(op), t(tiling), frame(frame), lanes(frame.lanes) {
  rank = cast<RankedTensorType>(op.getResult().getType()).getRank();
  queryCount = frame.dim(op.getQuery(), rank - 2);
  keyCount = frame.dim(op.getKey(), rank - 2);
  headCount = lanes.index(1);
  for (int64_t i = 0; i < rank - 2; ++i)
    headCount = lanes.mulIndex(headCount, tilesAlong(i));
  blocks = t.isFew ? lanes.index(1)
                   : lanes.ceilDivIndex(queryCount, lanes.index(t.queries));
}

/// Positions of tiles along a dimension of the batch.
Value AttentionEmitter::tilesAlong(int64_t dimension) {
  Value size = frame.dim(op.getResult(), dimension);
  return dimension == rank - 3 ? lanes.divIndex(size, lanes.index(t.group))
                               : size;
}

Value AttentionEmitter::tiles() { return lanes.mulIndex(headCount, blocks); }

Value AttentionEmitter::scratchBytes() {
  return lanes.index(layOut(Value()) * elementBytes(t.element));
}

/// Places the parts of the scratch memory and returns its elements.
int64_t AttentionEmitter::layOut(Value scratch) {
  int64_t used = 0;
  auto place = [&](int64_t elements) -> Value {
    int64_t at = used;
    used += roundUp(elements, t.lanes);
    return scratch ? pointerTo(scratch, lanes.index(at)) : Value();
  };
  queries = place(t.queries * t.head);
  keys = place(t.keys * t.head);
  values = place(t.keys * t.valueHead);
  scores = place(t.queries * t.keys);
  output = place(t.queries * t.valueHead);
  maxima = place(t.queries);
  sums = place(t.queries);
  return used;
}

MicroKernel AttentionEmitter::scoreKernel() const {
  return {t.element, t.lanes, t.rows, t.keyVectors, t.keys, 1, t.keyColumns()};
}

MicroKernel AttentionEmitter::outputKernel() const {
  return {t.element,   t.lanes, t.rows,          t.valueVectors,
          t.valueHead, 1,       t.valueColumns()};
}

//===----------------------------------------------------------------------===//
// Elements and memory
//===----------------------------------------------------------------------===//

/// The index of an element of query, key, value, result or mask. A batch
/// dimension of size one is repeated, and so is every such one of the mask,
/// whose dimensions are aligned at the end.
SmallVector<Lanes> AttentionEmitter::position(Value tensor, Lanes row,
                                              Lanes column) {
  auto type = cast<RankedTensorType>(tensor.getType());
  SmallVector<Lanes> index;
  bool isMask = op.getMask() && tensor == op.getMask();
  bool isShared = tensor == op.getKey() || tensor == op.getValue();
  Value head = rank > 2 ? batch[rank - 3] : Value();
  if (t.group > 1)
    head = lanes.mulIndex(head, lanes.index(t.group));
  if (t.group > 1 && !isShared && row.value) {
    head = lanes.addIndex(head, lanes.divIndex(row.value, queryCount));
    row = Lanes::uniform(queryOf(row.value));
  }
  for (int64_t i = 0; i < type.getRank(); ++i) {
    int64_t dimension = i + rank - type.getRank();
    Lanes at = dimension == rank - 2   ? row
               : dimension == rank - 1 ? column
               : dimension == rank - 3 ? Lanes::uniform(head)
                                       : Lanes::uniform(batch[dimension]);
    if ((isMask || dimension < rank - 2) && type.getDimSize(i) == 1) {
      at = lanes.indexLanes(0);
    } else if (op.getGrouped() && isShared && dimension == rank - 3) {
      Value group =
          lanes.divIndex(frame.dim(op.getResult(), i), frame.dim(tensor, i));
      at = Lanes::uniform(lanes.divIndex(at.value, group));
    }
    index.push_back(at);
  }
  return index;
}

/// The query of a row, within its head.
Value AttentionEmitter::queryOf(Value row) {
  return t.group > 1 ? lanes.remIndex(row, queryCount) : row;
}

/// An element in the type of the sums.
Lanes AttentionEmitter::element(Value tensor, Lanes row, Lanes column) {
  Lanes value = evaluator->evaluate(tensor, position(tensor, row, column));
  Type from = laneType(value.value);
  if (from == t.element)
    return value;
  if (from.isBF16() && t.element.isF32())
    return lanes.wrap(extendBF16(lanes, value.value));
  Type type = value.isVarying() ? lanes.vectorType(t.element) : t.element;
  return lanes.wrap(lanes.make<arith::ExtFOp>(type, value.value));
}

Value AttentionEmitter::pointerTo(Value memory, Value offset) {
  Type pointer = LLVM::LLVMPointerType::get(lanes.builder.getContext());
  return lanes.make<LLVM::GEPOp>(pointer, t.element, memory,
                                 ArrayRef<LLVM::GEPArg>{lanes.toI64(offset)});
}

Value AttentionEmitter::loadVector(Value memory, Value offset) {
  auto type = VectorType::get({t.lanes}, t.element);
  return lanes.builder.create<LLVM::LoadOp>(
      lanes.loc, type, pointerTo(memory, offset), elementBytes(t.element));
}

Value AttentionEmitter::loadScalar(Value memory, Value offset) {
  return lanes.builder.create<LLVM::LoadOp>(lanes.loc, t.element,
                                            pointerTo(memory, offset));
}

void AttentionEmitter::storeValue(Value value, Value memory, Value offset) {
  lanes.builder.create<LLVM::StoreOp>(
      lanes.loc, value, pointerTo(memory, offset), elementBytes(t.element));
}

Value AttentionEmitter::number(double value, bool isVector) {
  TypedAttr attr = lanes.builder.getFloatAttr(t.element, value);
  if (isVector)
    attr = DenseElementsAttr::get(VectorType::get({t.lanes}, t.element),
                                  Attribute(attr));
  return lanes.constant(attr);
}

/// The lanes from `at` that lie inside `size`; null if all do everywhere.
Value AttentionEmitter::headMask(int64_t size, Value at) {
  if (size % t.lanes == 0)
    return Value();
  LaneBuilder::MaskGuard guard(lanes, t.lanes, Value());
  Value rest = lanes.subIndex(lanes.index(size), at);
  return lanes.prefixMask(lanes.maxIndex(rest, lanes.index(0)));
}

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

/// [query][head], scaled, with zeros behind the head.
void AttentionEmitter::packQueries() {
  int64_t size =
      cast<RankedTensorType>(op.getQuery().getType()).getShape().back();
  Value scale = number(op.getScale().convertToDouble(), true);
  lanes.loop(firstQuery, queryEnd, 1, [&](Value row) {
    Value start =
        lanes.mulIndex(lanes.subIndex(row, firstQuery), lanes.index(t.head));
    lanes.loop(lanes.index(0), lanes.index(t.head), t.lanes, [&](Value at) {
      LaneBuilder::MaskGuard guard(lanes, t.lanes, headMask(size, at));
      Lanes value = element(op.getQuery(), Lanes::uniform(row),
                            Lanes::linear(at, 1, t.lanes));
      Value scaled = lanes.make<arith::MulFOp>(lanes.vector(value), scale);
      storeValue(scaled, queries, lanes.addIndex(start, at));
    });
  });
}

/// A vector of keys; those beyond the last repeat it, and their scores are
/// masked.
SmallVector<Value> AttentionEmitter::keysFrom(Value first) {
  Value last = lanes.subIndex(keyCount, lanes.index(1));
  SmallVector<Value> keys;
  for (int64_t i = 0; i < t.lanes; ++i)
    keys.push_back(lanes.minIndex(lanes.addIndex(first, lanes.index(i)), last));
  return keys;
}

/// [panel][head][key]: squares of the keys are transposed in registers.
void AttentionEmitter::packKeys(Value firstKey) {
  int64_t size =
      cast<RankedTensorType>(op.getKey().getType()).getShape().back();
  Value columns = lanes.index(t.keyColumns());
  lanes.loop(lanes.index(0), lanes.index(t.keys), t.lanes, [&](Value group) {
    SmallVector<Value> rows = keysFrom(lanes.addIndex(firstKey, group));
    Value panel = lanes.mulIndex(lanes.divIndex(group, columns),
                                 lanes.index(t.head * t.keyColumns()));
    Value start = lanes.addIndex(panel, lanes.remIndex(group, columns));
    lanes.loop(lanes.index(0), lanes.index(t.head), t.lanes, [&](Value at) {
      LaneBuilder::MaskGuard guard(lanes, t.lanes, headMask(size, at));
      SmallVector<Value> square;
      for (Value row : rows)
        square.push_back(lanes.vector(element(op.getKey(), Lanes::uniform(row),
                                              Lanes::linear(at, 1, t.lanes))));
      for (auto [i, vector] : llvm::enumerate(transpose(lanes, square))) {
        Value depth = lanes.addIndex(at, lanes.index(i));
        storeValue(vector, keys,
                   lanes.addIndex(start, lanes.mulIndex(depth, columns)));
      }
    });
  });
}

/// [panel][key][head], with zeros behind the head.
void AttentionEmitter::packValues(Value firstKey, Value count) {
  int64_t size =
      cast<RankedTensorType>(op.getValue().getType()).getShape().back();
  int64_t columns = t.valueColumns();
  lanes.loop(lanes.index(0), count, 1, [&](Value number) {
    Value key = lanes.addIndex(firstKey, number);
    for (int64_t at = 0; at < t.valueHead; at += t.lanes) {
      Value column = lanes.index(at);
      LaneBuilder::MaskGuard guard(lanes, t.lanes, headMask(size, column),
                                   true);
      Lanes value = element(op.getValue(), Lanes::uniform(key),
                            Lanes::linear(column, 1, t.lanes));
      Value offset = lanes.addIndex(
          lanes.mulIndex(number, lanes.index(columns)),
          lanes.index(at / columns * columns * t.keys + at % columns));
      storeValue(lanes.vector(value), values, offset);
    }
  });
}

void AttentionEmitter::clearOutput() {
  Value zero = number(0, true);
  lanes.loop(lanes.index(0), lanes.index(t.queries * t.valueHead), t.lanes,
             [&](Value at) { storeValue(zero, output, at); });
  Value none = number(-std::numeric_limits<double>::infinity(), false);
  lanes.loop(lanes.index(0), lanes.index(t.queries), 1, [&](Value row) {
    storeValue(none, maxima, row);
    storeValue(number(0, false), sums, row);
  });
}

/// scores = queries * keys^T, or output += scores * values.
void AttentionEmitter::multiply(Value count, bool isScore) {
  MicroKernel kernel = isScore ? scoreKernel() : outputKernel();
  func::FuncOp &block = isScore ? scoreBlock : outputBlock;
  if (!block)
    block = kernel.create(
        lanes.builder, frame.source,
        (frame.source.getName() + (isScore ? "_scores" : "_output")).str());
  int64_t leftStride = isScore ? t.head : t.keys;
  int64_t panelSize = (isScore ? t.head : t.keys) * kernel.columns();
  int64_t panels = (isScore ? t.keys : t.valueHead) / kernel.columns();
  Value rowCount = lanes.subIndex(queryEnd, firstQuery);
  MicroKernel::Arguments arguments;
  arguments.depth = isScore ? lanes.index(t.head) : count;
  arguments.continues = lanes.constant(lanes.builder.getBoolAttr(!isScore));
  // Rows behind the last query hold anything and are read by nobody.
  lanes.loop(lanes.index(0), rowCount, t.rows, [&](Value row) {
    Value left = lanes.mulIndex(row, lanes.index(leftStride));
    arguments.left.clear();
    for (int64_t i = 0; i < t.rows; ++i)
      arguments.left.push_back(
          pointerTo(isScore ? queries : scores,
                    lanes.addIndex(left, lanes.index(i * leftStride))));
    Value start = lanes.mulIndex(row, lanes.index(kernel.sumStride));
    lanes.loop(lanes.index(0), lanes.index(panels), 1, [&](Value panel) {
      arguments.right =
          pointerTo(isScore ? keys : values,
                    lanes.mulIndex(panel, lanes.index(panelSize)));
      Value column = lanes.mulIndex(panel, lanes.index(kernel.columns()));
      arguments.sums =
          pointerTo(isScore ? scores : output, lanes.addIndex(start, column));
      kernel.call(lanes, block, arguments);
    });
  });
}

//===----------------------------------------------------------------------===//
// The tile
//===----------------------------------------------------------------------===//

void AttentionEmitter::finish(ArrayRef<Epilogue> epilogues) {
  auto resultType = cast<RankedTensorType>(op.getResult().getType());
  Value size = lanes.index(resultType.getShape().back());
  bool isAdditive =
      op.getMask() && !cast<RankedTensorType>(op.getMask().getType())
                           .getElementType()
                           .isInteger(1);
  lanes.loop(firstQuery, queryEnd, 1, [&](Value row) {
    Value local = lanes.subIndex(row, firstQuery);
    Value sum = loadScalar(sums, local);
    Value start = lanes.mulIndex(local, lanes.index(t.valueHead));
    // A row that sees nothing has sum zero: NaN under an additive mask.
    Value divisor = sum;
    if (!isAdditive) {
      Value isNone = lanes.make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, sum,
                                               number(0, false));
      divisor = lanes.make<arith::SelectOp>(isNone, number(1, false), sum);
    }
    lanes.loop(lanes.index(0), size, t.lanes, [&](Value at) {
      Value mask = headMask(resultType.getShape().back(), at);
      LaneBuilder::MaskGuard guard(lanes, t.lanes, mask);
      Value value = loadVector(output, lanes.addIndex(start, at));
      value = lanes.make<arith::DivFOp>(value,
                                        lanes.vector(Lanes::uniform(divisor)));
      if (resultType.getElementType().isBF16())
        value = truncateToBF16(lanes, value);
      else if (resultType.getElementType() != t.element)
        value = lanes.make<arith::TruncFOp>(
            lanes.vectorType(resultType.getElementType()), value);
      evaluator->bind(op.getResult(), [value](ArrayRef<Lanes>) {
        return Lanes::varying(value);
      });
      SmallVector<Lanes> index = position(op.getResult(), Lanes::uniform(row),
                                          Lanes::linear(at, 1, t.lanes));
      for (const Epilogue &epilogue : epilogues)
        epilogue.emit(*evaluator, index);
    });
  });
}

/// The head's position, the queries and the keys of a tile.
void AttentionEmitter::findTile(Value tile) {
  firstQuery =
      lanes.mulIndex(lanes.remIndex(tile, blocks), lanes.index(t.queries));
  queryEnd = lanes.minIndex(lanes.addIndex(firstQuery, lanes.index(t.queries)),
                            lanes.mulIndex(queryCount, lanes.index(t.group)));
  keyEnd = keyCount;
  if (op.getCausal())
    keyEnd = lanes.minIndex(keyCount, lanes.minIndex(queryEnd, queryCount));
  Value rest = lanes.divIndex(tile, blocks);
  batch.resize(rank - 2);
  for (int64_t i = rank - 2; i-- > 0;) {
    Value size = tilesAlong(i);
    batch[i] = i ? lanes.remIndex(rest, size) : rest;
    rest = i ? lanes.divIndex(rest, size) : rest;
  }
}

void AttentionEmitter::emitTile(Evaluator &tileEvaluator,
                                ArrayRef<Epilogue> epilogues, Value scratch,
                                Value tile) {
  evaluator = &tileEvaluator;
  layOut(scratch);
  findTile(tile);
  packQueries();
  clearOutput();
  lanes.loop(lanes.index(0), keyEnd, t.keys, [&](Value firstKey) {
    Value count =
        lanes.minIndex(lanes.subIndex(keyEnd, firstKey), lanes.index(t.keys));
    if (t.isFew) {
      scoreFew(firstKey, count);
    } else {
      packKeys(firstKey);
      packValues(firstKey, count);
      multiply(count, /*isScore=*/true);
    }
    lanes.loop(firstQuery, queryEnd, 1,
               [&](Value row) { softmaxRow(row, firstKey, count); });
    t.isFew ? mixFew(firstKey, count) : multiply(count, /*isScore=*/false);
  });
  finish(epilogues);
}

} // namespace codegen
} // namespace anabranch
