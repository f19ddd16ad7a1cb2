//===- WindowRows.cpp - rows that are windows of an image -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/operands/WindowRows.h"

#include "kernels/emit/Transpose.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// Up to so many taps are unrolled, so that their places need no division.
static constexpr int64_t mostWrittenTaps = 16;

std::optional<WindowRows> WindowRows::of(GemmContext &gemm) {
  if (!gemm.contraction.windows)
    return std::nullopt;
  return WindowRows(gemm);
}

/// Joins the taps of the last dimension to one run, if the next point is the
/// next run in memory.
void WindowRows::mergeLastTaps() {
  const AffineMap &map = windows.map;
  auto type = cast<RankedTensorType>(windows.image.getType());
  bool isShort = run < gemm.layout.tiling.lanes * gemm.layout.word.kPack;
  if (taps.empty() || windows.padding || !isShort || !windows.isContiguous ||
      type.getShape().back() != run || map.getNumResults() < 2)
    return;
  AffineExpr last = getAffineDimExpr(map.getNumDims() - 2, map.getContext());
  for (auto [i, expr] : llvm::enumerate(map.getResults())) {
    int64_t wanted = i == map.getNumResults() - 2 ? 1 : 0;
    AffineExpr growth =
        simplifyAffineExpr(expr.replace(last, last + 1) - expr,
                           map.getNumDims(), map.getNumSymbols());
    if (growth != getAffineConstantExpr(wanted, map.getContext()))
      return;
  }
  run *= taps.back();
  taps.back() = 1;
}

int64_t WindowRows::paddingElements() const {
  // The padding has the type of the image, which is no wider than an
  // accumulator.
  return windows.padding ? llvm::alignTo(run, gemm.layout.tiling.lanes) : 0;
}

int64_t WindowRows::elementsAfter() const {
  int64_t rows = gemm.layout.left.isInterleaved() ? gemm.layout.tiling.rows : 1;
  return (rows + 1) * gemm.layout.tiling.lanes;
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

Value WindowRows::moved(Value pointer, Value elements, Type type) const {
  return lanes.builder.create<LLVM::GEPOp>(
      lanes.loc, pointer.getType(), type, pointer,
      ArrayRef<LLVM::GEPArg>{lanes.toI64(elements)});
}

/// The indices of a row in the loops of the view, without those of the taps.
WindowRows::Point WindowRows::pointOf(Value row) {
  linalg::GenericOp op = gemm.contraction.op;
  AffineMap rows = op.getIndexingMapsArray()[gemm.contraction.left.number];
  Point point = gemm.evaluator->apply(
      rows, gemm.point(row, Lanes(), lanes.indexLanes(0)));
  point.pop_back();
  return point;
}

/// The address of a tap's run.
Value WindowRows::runAt(const Point &row, Value tap, Value outside) {
  Point loops = row;
  SmallVector<Lanes> parts(taps.size());
  for (size_t i = taps.size(); i-- > 0;) {
    Value size = lanes.index(taps[i]);
    parts[i] = Lanes::uniform(i ? lanes.remIndex(tap, size) : tap);
    tap = lanes.divIndex(tap, size);
  }
  llvm::append_range(loops, parts);
  loops.push_back(lanes.indexLanes(0));
  Point place = gemm.evaluator->apply(windows.map, loops);
  Value inside;
  const Buffer &buffer = gemm.function.argument(windows.image.getArgNumber());
  Value offset = lanes.index(0);
  for (size_t i = 0; i < place.size(); ++i) {
    Value at = place[i].value;
    if (tensor::InsertSliceOp padding = windows.padding) {
      OpFoldResult low = padding.getMixedOffsets()[i];
      auto known = getConstantIntValue(low);
      at = lanes.subIndex(at, gemm.function.size(low));
      bool spans = known == 0 && padding.getSourceType().getDimSize(i) ==
                                     padding.getResultType().getDimSize(i);
      if (!spans) {
        // One unsigned comparison checks both ends.
        Value fits = lanes.make<arith::CmpIOp>(
            arith::CmpIPredicate::ult, at,
            gemm.function.size(padding.getMixedSizes()[i]));
        inside = inside ? lanes.make<arith::AndIOp>(inside, fits) : fits;
      }
    }
    offset = lanes.addIndex(offset, lanes.mulIndex(at, buffer.strides[i]));
  }
  Value pointer = moved(buffer.pointer, offset, buffer.element);
  return inside ? lanes.make<arith::SelectOp>(inside, pointer, outside)
                : pointer;
}

/// A vector of a run, with zeros after the run's end.
Value WindowRows::loadRun(Value pointer, Value first, int64_t width,
                          bool whole) {
  Type element =
      cast<RankedTensorType>(windows.image.getType()).getElementType();
  Value mask;
  if (!whole) {
    LaneBuilder::MaskGuard guard(lanes, width, Value());
    mask = lanes.prefixMask(lanes.subIndex(lanes.index(run), first));
  }
  LaneBuilder::MaskGuard guard(lanes, width, mask);
  Buffer buffer{pointer, element, {lanes.index(1)}};
  Value vector =
      lanes.vector(load(lanes, buffer, {Lanes::linear(first, 1, width)}));
  if (gemm.layout.word.kPack == 1 || gemm.layout.left.isInterleaved())
    return lanes.vector(gemm.memory.extendFloat(lanes.wrap(vector)));
  if (element.isBF16())
    vector = castBits(lanes, vector, lanes.builder.getI16Type());
  return lanes.make<LLVM::BitcastOp>(gemm.memory.vectorType(), vector);
}

void WindowRows::forRun(int64_t width, bool mayReadAfter,
                        function_ref<void(Value first, bool whole)> body) {
  int64_t whole = run / width * width;
  if (whole == width)
    body(lanes.index(0), /*whole=*/true);
  else if (whole)
    lanes.loop(lanes.index(0), lanes.index(whole), width,
               [&](Value first) { body(first, /*whole=*/true); });
  if (whole < run)
    body(lanes.index(whole), /*whole=*/mayReadAfter);
}

/// Whether a vector that begins in any tap but the last stays within the image.
/// The next tap is a row further on; it overwrites what the vector has in
/// excess.
bool WindowRows::nextTapFollows(int64_t width) const {
  auto type = cast<RankedTensorType>(windows.image.getType());
  bool isMerged = run != windows.run;
  int64_t rank = type.getRank();
  return isMerged && rank >= 4 && !type.isDynamicDim(rank - 2) &&
         type.getDimSize(rank - 2) * type.getDimSize(rank - 1) >= width;
}

void WindowRows::forTaps(function_ref<void(Value tap, bool isLast)> body) {
  int64_t count = 1;
  for (int64_t size : taps)
    count *= size;
  // The code for interleaving is long already.
  if (count > mostWrittenTaps || gemm.layout.left.isInterleaved())
    return lanes.loop(lanes.index(0), lanes.index(count), 1,
                      [&](Value tap) { body(tap, /*isLast=*/true); });
  for (int64_t tap = 0; tap < count; ++tap)
    body(lanes.index(tap), tap + 1 == count);
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

void WindowRows::fillPadding(Value outside) {
  Value bytes = gemm.memory.filledVector(windows.fill);
  lanes.loop(lanes.index(0), lanes.index(paddingElements()),
             gemm.layout.tiling.lanes,
             [&](Value at) { gemm.memory.store(bytes, outside, at); });
}

void WindowRows::pack(Value packed, Value stride, Value outside) {
  fillPadding(outside);
  const GemmContext::Tile &tile = gemm.tile;
  if (!gemm.layout.left.isInterleaved())
    return gemm.forCopiedRows([&](Value row, Value from) {
      Value start = lanes.mulIndex(lanes.subIndex(row, tile.firstRow), stride);
      packRow(pointOf(from), gemm.memory.pointerTo(packed, start), stride,
              outside);
    });
  Value lastRow = lanes.subIndex(tile.endRow, lanes.index(1));
  int64_t count = gemm.layout.tiling.rows;
  lanes.loop(tile.firstRow, tile.endRow, count, [&](Value row) {
    SmallVector<Point> rows;
    for (int64_t i = 0; i < count; ++i)
      rows.push_back(pointOf(
          lanes.minIndex(lanes.addIndex(row, lanes.index(i)), lastRow)));
    Value start = lanes.mulIndex(lanes.subIndex(row, tile.firstRow), stride);
    packBlock(rows, gemm.memory.pointerTo(packed, start), outside);
  });
}

/// Copies a row. Each vector may write zeros after its run, which the next one
/// overwrites.
void WindowRows::packRow(const Point &row, Value packed, Value end,
                         Value outside) {
  const ProductLayout &layout = gemm.layout;
  Type element =
      layout.word.kPack == 1
          ? gemm.contraction.element
          : cast<RankedTensorType>(windows.image.getType()).getElementType();
  Value vector = lanes.index(layout.tiling.lanes);
  gemm.memory.store(gemm.memory.zeroVector(), packed,
                    lanes.subIndex(end, vector));
  int64_t width = layout.tiling.lanes * layout.word.kPack;
  forTaps([&](Value tap, bool isLast) {
    Value from = runAt(row, tap, outside);
    Value to = moved(packed, lanes.mulIndex(tap, lanes.index(run)), element);
    bool mayReadAfter = !isLast && nextTapFollows(width);
    forRun(width, mayReadAfter, [&](Value first, bool whole) {
      Value words = loadRun(from, first, width, whole);
      gemm.memory.store(words, moved(to, first, element), lanes.index(0));
    });
  });
}

/// Transposes squares in registers, as LeftOperand does.
void WindowRows::packBlock(ArrayRef<Point> rows, Value packed, Value outside) {
  int64_t width = gemm.layout.tiling.lanes;
  Value count = lanes.index(rows.size());
  forTaps([&](Value tap, bool) {
    SmallVector<Value> runs;
    for (const Point &row : rows)
      runs.push_back(runAt(row, tap, outside));
    Value start = lanes.mulIndex(tap, lanes.index(run));
    forRun(width, /*mayReadAfter=*/false, [&](Value first, bool whole) {
      SmallVector<Value> square;
      for (Value from : runs)
        square.push_back(loadRun(from, first, width, whole));
      square.resize(width, square.back());
      Value offset = lanes.mulIndex(lanes.addIndex(start, first), count);
      for (auto [i, vector] : llvm::enumerate(transpose(lanes, square)))
        gemm.memory.store(
            vector, packed,
            lanes.addIndex(offset, lanes.index(int64_t(i * rows.size()))));
    });
  });
}

} // namespace kernels
} // namespace anabranch
