//===- GemmBlocking.cpp - how a product is cut up -------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/gemm/GemmBlocking.h"

#include "codegen/microkernel/AmxBlock.h"
#include "mlir/IR/BuiltinTypes.h"

#include <numeric>

using namespace mlir;

namespace anabranch {
namespace codegen {

namespace {

/// A shape of a block of accumulators and what a multiply-add costs in it,
/// measured, relative to the best.
struct BlockShape {
  int64_t rows, vectors;
  double cost;
};

constexpr BlockShape wideShapes[] = {
    {6, 4, 1.0},  {8, 3, 1.0},  {12, 2, 1.02}, {4, 4, 1.1}, {5, 4, 1.03},
    {7, 3, 1.02}, {6, 3, 1.05}, {8, 2, 1.1},   {2, 4, 1.5}, {1, 4, 2.5},
    {3, 4, 1.25}, {14, 1, 1.3}, {8, 1, 1.5}};
constexpr BlockShape narrowShapes[] = {{6, 2, 1.0},  {4, 3, 1.0}, {5, 2, 1.03},
                                       {4, 2, 1.1},  {3, 2, 1.3}, {2, 2, 1.6},
                                       {1, 2, 2.5},  {1, 4, 2.2}, {2, 4, 1.5},
                                       {10, 1, 1.2}, {6, 1, 1.5}};

// Bytes that are widened to halves take two registers for each operand.
constexpr BlockShape wideWidened[] = {{10, 2, 1.0}, {8, 2, 1.0},  {6, 2, 1.05},
                                      {4, 2, 1.2},  {2, 2, 1.6},  {1, 4, 2.2},
                                      {1, 2, 2.5},  {12, 1, 1.2}, {4, 1, 1.6}};
constexpr BlockShape narrowWidened[] = {{4, 2, 1.0}, {3, 2, 1.1}, {2, 2, 1.4},
                                        {8, 1, 1.1}, {4, 1, 1.4}, {1, 2, 2.2}};

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// What a block shape must fit.
struct Wanted {
  std::optional<int64_t> rows, columns; ///< if they are known
  std::optional<int64_t> vectors = {};  ///< of a panel, which blocks divide
  int64_t panels = 1;                   ///< at least this many, of two vectors
  bool isEven = false;                  ///< an even number of vectors
};

ArrayRef<BlockShape> shapesFor(const TargetInfo &target,
                               const GemmBlocking &blocking) {
  if (blocking.multipliesInt8() && blocking.int8.kind == Int8Dot::Kind::Widened)
    return target.avx512 ? ArrayRef(wideWidened) : ArrayRef(narrowWidened);
  return target.avx512 ? ArrayRef(wideShapes) : ArrayRef(narrowShapes);
}

/// The block shape that wastes least.
std::optional<BlockShape> chooseShape(ArrayRef<BlockShape> shapes,
                                      int64_t lanes, const Wanted &wanted) {
  auto [rows, columns, vectors, panels, isEven] = wanted;
  std::optional<BlockShape> best;
  double bestCost = 0;
  for (const BlockShape &shape : shapes) {
    if ((vectors && *vectors % shape.vectors != 0) ||
        (isEven && shape.vectors % 2 != 0))
      continue;
    if (panels > 1 && (shape.vectors < 2 ||
                       ceilDiv(*columns, shape.vectors * lanes) < panels))
      continue;
    double cost = shape.cost;
    if (rows)
      cost *= double(ceilDiv(*rows, shape.rows) * shape.rows) / *rows;
    if (columns) {
      int64_t width = shape.vectors * lanes;
      cost *= double(ceilDiv(*columns, width) * width) / *columns;
    }
    if (!best || cost < bestCost * 0.999) {
      best = shape;
      bestCost = cost;
    }
  }
  return best;
}

constexpr int64_t unknownDepth = 384;
constexpr int64_t largestDepth = 512;
/// Bytes: 32 columns of them take 32 KiB, which stay in the first cache while
/// the rows, as much for each block, stream through it.
constexpr int64_t largestAmxDepth = 1024;
constexpr int64_t unknownRows = 192;
constexpr int64_t largestRows = 288;
constexpr int64_t enoughTiles = 8;
constexpr int64_t enoughPanels = 6;
constexpr int64_t enoughLargeTiles = 16;
/// Up to this many rows, reading the right operand takes most of the time.
constexpr int64_t fewRows = 8;
/// Up to this many rows, packing costs a notable part of the product.
constexpr int64_t rowsToPack = 96;

int64_t chooseRowsPerTile(const Contraction &contraction,
                          const GemmBlocking &blocking) {
  auto rows = contraction.knownSize(contraction.rows);
  if (!rows)
    return ceilDiv(unknownRows, blocking.rows) * blocking.rows;
  int64_t perTile = ceilDiv(*rows, ceilDiv(*rows, largestRows));
  auto columns = contraction.knownSize(contraction.column);
  auto batch = contraction.knownSize(contraction.batch);
  int64_t others = columns && batch
                       ? ceilDiv(*columns, blocking.columns()) * *batch
                       : enoughTiles;
  while (!blocking.packsOnce &&
         others * ceilDiv(*rows, perTile) < enoughTiles && perTile > 48)
    perTile = ceilDiv(perTile, 2);
  return ceilDiv(perTile, blocking.rows) * blocking.rows;
}

/// As many panels as leave enough tiles, in equal parts.
int64_t choosePanelsPerTile(const Contraction &contraction,
                            const GemmBlocking &blocking) {
  auto rows = contraction.knownSize(contraction.rows),
       columns = contraction.knownSize(contraction.column);
  auto batch = contraction.knownSize(contraction.batch);
  bool packs =
      blocking.packLeft && blocking.right != GemmBlocking::Right::RowDots;
  if (!packs || !rows || !columns || !batch)
    return 1;
  int64_t panels = ceilDiv(*columns, blocking.columns());
  int64_t others = ceilDiv(*rows, blocking.rowsPerTile) * *batch;
  int64_t groups = ceilDiv(enoughLargeTiles, std::max<int64_t>(others, 1));
  return std::max<int64_t>(1, ceilDiv(panels, groups));
}

int64_t depthsOfWord(const Contraction &contraction, const TargetInfo &target) {
  Type narrow = contraction.narrow();
  if (target.avx2 && contraction.multipliesInt8())
    return 4;
  bool pairs = target.avx512 && target.avx512Bf16 && narrow &&
               narrow.isBF16() && contraction.element.isF32();
  return pairs ? 2 : 1;
}

/// AMX registers, of 16 rows each, are used for more rows than these.
constexpr int64_t manyRows = 16;

bool hasAmx(const GemmBlocking &blocking, const TargetInfo &target) {
  return target.amxInt8 && target.avx512 && blocking.multipliesInt8();
}

/// Whether blocks are products of AMX registers.
bool wantsAmx(const Contraction &contraction, const GemmBlocking &blocking,
              const TargetInfo &target) {
  auto rows = contraction.knownSize(contraction.rows);
  return hasAmx(blocking, target) && (!rows || *rows > manyRows);
}

/// Whether the micro-kernel can load and widen this type.
bool isLoadable(Type type, Type element) {
  return type && (type == element ||
                  (element.isF32() && (type.isBF16() || type.isF16())));
}

/// Whether panels of this type can be read where they are.
bool isPackable(Type type, Type element, int64_t kPack) {
  return kPack == 4 ? type && type.isInteger(8) : isLoadable(type, element);
}

bool readsPanels(const Contraction &contraction, const GemmBlocking &blocking) {
  return contraction.right.panels &&
         contraction.right.panels->width % blocking.lanes == 0 &&
         contraction.right.panels->kPack == blocking.kPack &&
         isPackable(contraction.right.memory, contraction.element,
                    blocking.kPack);
}

GemmBlocking::Right chooseRight(const Contraction &contraction,
                                const GemmBlocking &blocking) {
  using Right = GemmBlocking::Right;
  auto rows = contraction.knownSize(contraction.rows),
       columns = contraction.knownSize(contraction.column);
  if (readsPanels(contraction, blocking))
    return Right::Prepacked;
  if (contraction.right.isWindow)
    return Right::Pack;
  if (contraction.right.unitLoop == contraction.depth)
    return rows && *rows <= fewRows ? Right::RowDots : Right::PackTransposed;
  bool inPlace = rows && *rows <= 2 * blocking.rows && blocking.kPack == 1 &&
                 isLoadable(contraction.right.memory, contraction.element) &&
                 contraction.right.isRegular &&
                 contraction.right.unitLoop == contraction.column && columns &&
                 *columns % blocking.columns() == 0;
  return inPlace ? Right::InPlace : Right::Pack;
}

/// The block of accumulators, unless AMX registers hold it. Finds out on the
/// way whether the panels alone are tiles enough.
BlockShape chooseBlock(const Contraction &contraction, const TargetInfo &target,
                       GemmBlocking &blocking) {
  ArrayRef<BlockShape> shapes = shapesFor(target, blocking);
  auto rows = contraction.knownSize(contraction.rows),
       columns = contraction.knownSize(contraction.column);
  std::optional<int64_t> vectors;
  if (readsPanels(contraction, blocking))
    vectors = contraction.right.panels->width / blocking.lanes;
  Wanted wanted{rows, columns, vectors};
  std::optional<BlockShape> shape;
  // Each strip of rows packs a panel again, and with few rows that is dear.
  // More panels make tiles too.
  bool packsDear = contraction.right.isWindow ||
                   (contraction.right.unitLoop == contraction.column &&
                    !contraction.right.panels && rows && *rows > fewRows &&
                    *rows <= rowsToPack);
  if (auto batch = contraction.knownSize(contraction.batch);
      packsDear && columns && batch) {
    wanted.panels = ceilDiv(enoughPanels, std::max<int64_t>(*batch, 1));
    shape = chooseShape(shapes, blocking.lanes, wanted);
    blocking.packsOnce = shape.has_value();
    wanted.panels = 1;
  }
  if (!shape)
    shape = chooseShape(shapes, blocking.lanes, wanted);
  return shape ? *shape : BlockShape{1, *vectors, 1.0};
}

/// The depth of a panel: equal parts of the whole depth, if that is known.
int64_t chooseDepth(const Contraction &contraction,
                    const GemmBlocking &blocking) {
  auto rows = contraction.knownSize(contraction.rows),
       depth = contraction.knownSize(contraction.depth);
  if (!depth)
    return unknownDepth;
  // Four bytes are as large as one float.
  int64_t most =
      largestDepth * (blocking.multipliesInt8() ? blocking.kPack : 1);
  if (blocking.usesAmx)
    most = std::min(most, largestAmxDepth);
  int64_t blocks = std::max<int64_t>(1, ceilDiv(*depth, most));
  // A panel that no second block of rows reads need not fit a cache.
  if (!blocking.copiesRight() && rows && *rows <= blocking.rows)
    blocks = 1;
  // A row of an AMX register is as long as a vector.
  int64_t step = blocking.lanes * blocking.kPack;
  // Whole windows are packed without finding a point's place by division.
  if (int64_t points = contraction.right.windowPoints; points && blocks > 1)
    if (int64_t whole = std::lcm(step, points); whole <= largestDepth)
      step = whole;
  return ceilDiv(ceilDiv(*depth, blocks), step) * step;
}

/// Whether the micro-kernel can read the left operand where it is.
bool readsLeftInPlace(const Contraction &contraction,
                      const GemmBlocking &blocking) {
  const ContractionOperand &left = contraction.left;
  if (!left.isRegular || !left.memory)
    return false;
  // All rows of an AMX register lie equally far apart.
  if (blocking.usesAmx && !left.rowsAreRegular)
    return false;
  if (blocking.kPack == 1)
    return left.memory == contraction.element;
  auto depth = contraction.knownSize(contraction.depth);
  return left.memory == contraction.narrow() &&
         left.unitLoop == contraction.depth && depth &&
         *depth % blocking.kPack == 0;
}

} // namespace

WordProduct GemmBlocking::wordProduct() const {
  WordProduct product;
  if (multipliesInt8())
    product.int8 = int8;
  product.isBF16Pair = kPack == 2;
  return product;
}

int64_t GemmBlocking::dotColumns() const {
  // As many accumulators as registers hold beside the operands.
  int64_t most = lanes >= 8 && vectors == 4 ? 24 : 12;
  if (multipliesInt8() && int8.kind == Int8Dot::Kind::Widened)
    most /= 2;
  return std::clamp<int64_t>(most / rows, 1, 8);
}

GemmBlocking GemmBlocking::choose(const Contraction &contraction,
                                  const TargetInfo &target) {
  GemmBlocking blocking;
  blocking.lanes = target.lanes(contraction.element.getIntOrFloatBitWidth());
  blocking.kPack = depthsOfWord(contraction, target);
  blocking.int8 = Int8Dot::of(target);
  BlockShape shape = chooseBlock(contraction, target, blocking);
  blocking.rows = shape.rows;
  blocking.vectors = shape.vectors;
  blocking.usesAmx = wantsAmx(contraction, blocking, target);
  if (blocking.usesAmx) {
    blocking.rows = AmxBlock::rows;
    bool isOdd = readsPanels(contraction, blocking) &&
                 contraction.right.panels->width / blocking.lanes % 2;
    blocking.vectors = isOdd ? 1 : 2;
  }
  blocking.right = chooseRight(contraction, blocking);
  blocking.panelWidth = blocking.right == Right::Prepacked
                            ? contraction.right.panels->width
                            : blocking.columns();
  auto rows = contraction.knownSize(contraction.rows);
  if (blocking.right == Right::RowDots) {
    blocking.rows = std::max<int64_t>(*rows, 1);
    blocking.vectors = target.avx512 ? 4 : 2;
  }
  bool reads =
      blocking.right == Right::InPlace || blocking.right == Right::Prepacked;
  blocking.rightElement = reads && blocking.kPack == 1
                              ? contraction.right.memory
                              : contraction.element;
  blocking.depth = chooseDepth(contraction, blocking);
  blocking.rowsPerTile = chooseRowsPerTile(contraction, blocking);
  blocking.packLeft = !readsLeftInPlace(contraction, blocking);
  blocking.panelsPerTile = choosePanelsPerTile(contraction, blocking);
  if (rows && *rows <= fewRows && *rows > 1)
    blocking.bytesAhead = 4096;
  return blocking;
}

std::optional<Panels> choosePanels(const Contraction &contraction,
                                   const TargetInfo &target) {
  linalg::GenericOp op = contraction.op;
  Type stored =
      cast<RankedTensorType>(op->getOperand(contraction.right.number).getType())
          .getElementType();
  auto columns = contraction.knownSize(contraction.column);
  GemmBlocking blocking;
  blocking.kPack = depthsOfWord(contraction, target);
  blocking.int8 = Int8Dot::of(target);
  if (!target.fma || !columns ||
      !isPackable(stored, contraction.element, blocking.kPack))
    return std::nullopt;
  int64_t lanes = target.lanes(contraction.element.getIntOrFloatBitWidth());
  Wanted wanted{contraction.knownSize(contraction.rows), columns};
  // Two registers of either operand make four products of two loads each; with
  // one vector there are three loads for two products.
  wanted.isEven = hasAmx(blocking, target) && *columns > lanes;
  std::optional<BlockShape> shape =
      chooseShape(shapesFor(target, blocking), lanes, wanted);
  return Panels{shape->vectors * lanes, blocking.kPack};
}

} // namespace codegen
} // namespace anabranch
