//===- ContractionTiling.cpp - how a contraction is cut up ----------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/gemm/ContractionTiling.h"

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
constexpr BlockShape wideHalves[] = {{10, 2, 1.0}, {8, 2, 1.0},  {6, 2, 1.05},
                                     {4, 2, 1.2},  {2, 2, 1.6},  {1, 4, 2.2},
                                     {1, 2, 2.5},  {12, 1, 1.2}, {4, 1, 1.6}};
constexpr BlockShape narrowHalves[] = {{4, 2, 1.0}, {3, 2, 1.1}, {2, 2, 1.4},
                                       {8, 1, 1.1}, {4, 1, 1.4}, {1, 2, 2.2}};

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// What a block shape must fit.
struct Wanted {
  std::optional<int64_t> rows, columns; ///< if they are known
  std::optional<int64_t> vectors = {};  ///< of a panel, which blocks divide
  int64_t panels = 1;                   ///< at least so many, of two vectors
  bool pairs = false;                   ///< an even number of vectors
};

ArrayRef<BlockShape> shapesFor(const TargetInfo &target,
                               const ContractionTiling &t) {
  if (t.multipliesBytes() && t.bytes.kind == ByteDots::Kind::Halves)
    return target.avx512 ? ArrayRef(wideHalves) : ArrayRef(narrowHalves);
  return target.avx512 ? ArrayRef(wideShapes) : ArrayRef(narrowShapes);
}

/// The block shape that wastes least.
std::optional<BlockShape> chooseShape(ArrayRef<BlockShape> shapes,
                                      int64_t lanes, const Wanted &wanted) {
  auto [rows, columns, vectors, panels, pairs] = wanted;
  std::optional<BlockShape> best;
  double bestCost = 0;
  for (const BlockShape &shape : shapes) {
    if ((vectors && *vectors % shape.vectors != 0) ||
        (pairs && shape.vectors % 2 != 0))
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
constexpr int64_t largestTileDepth = 1024;
constexpr int64_t unknownRows = 192;
constexpr int64_t largestRows = 288;
constexpr int64_t enoughTiles = 8;
constexpr int64_t enoughPanels = 6;
constexpr int64_t enoughLargeTiles = 16;
/// Up to so many rows, reading the right operand is what takes the time.
constexpr int64_t fewRows = 8;
/// With up to so many rows, packing costs a notable part of the product.
constexpr int64_t rowsToPack = 96;

int64_t chooseRowsPerTile(const Contraction &c, const ContractionTiling &t) {
  auto rows = c.knownSize(c.rows);
  if (!rows)
    return ceilDiv(unknownRows, t.rows) * t.rows;
  int64_t perTile = ceilDiv(*rows, ceilDiv(*rows, largestRows));
  auto columns = c.knownSize(c.column);
  auto batch = c.knownSize(c.batch);
  int64_t others =
      columns && batch ? ceilDiv(*columns, t.columns()) * *batch : enoughTiles;
  while (!t.packsOnce && others * ceilDiv(*rows, perTile) < enoughTiles &&
         perTile > 48)
    perTile = ceilDiv(perTile, 2);
  return ceilDiv(perTile, t.rows) * t.rows;
}

/// As many panels as leave enough tiles, in equal parts.
int64_t choosePanelsPerTile(const Contraction &c, const ContractionTiling &t) {
  auto rows = c.knownSize(c.rows), columns = c.knownSize(c.column);
  auto batch = c.knownSize(c.batch);
  bool packs = t.packLeft && t.right != ContractionTiling::Right::Rows;
  if (!packs || !rows || !columns || !batch)
    return 1;
  int64_t panels = ceilDiv(*columns, t.columns());
  int64_t others = ceilDiv(*rows, t.rowsPerTile) * *batch;
  int64_t groups = ceilDiv(enoughLargeTiles, std::max<int64_t>(others, 1));
  return std::max<int64_t>(1, ceilDiv(panels, groups));
}

int64_t depthsOfWord(const Contraction &c, const TargetInfo &target) {
  Type narrow = c.narrow();
  if (target.avx2 && c.multipliesBytes())
    return 4;
  bool pairs = target.avx512 && target.avx512Bf16 && narrow &&
               narrow.isBF16() && c.element.isF32();
  return pairs ? 2 : 1;
}

/// Rows from which on tile registers, of 16 rows each, are worth it.
constexpr int64_t manyRows = 16;

bool hasTiles(const ContractionTiling &t, const TargetInfo &target) {
  return target.amxInt8 && target.avx512 && t.multipliesBytes();
}

/// Whether blocks are products of tile registers.
bool usesTiles(const Contraction &c, const ContractionTiling &t,
               const TargetInfo &target) {
  auto rows = c.knownSize(c.rows);
  return hasTiles(t, target) && (!rows || *rows > manyRows);
}

/// Whether the micro-kernel can load and widen this type.
bool isLoadable(Type type, Type element) {
  return type && (type == element ||
                  (element.isF32() && (type.isBF16() || type.isF16())));
}

/// Whether panels of this type can be read where they are.
bool isPackable(Type type, Type element, int64_t pair) {
  return pair == 4 ? type && type.isInteger(8) : isLoadable(type, element);
}

bool readsPanels(const Contraction &c, const ContractionTiling &t) {
  return c.right.panels && c.right.panels->width % t.lanes == 0 &&
         c.right.panels->pair == t.pair &&
         isPackable(c.right.memory, c.element, t.pair);
}

ContractionTiling::Right chooseRight(const Contraction &c,
                                     const ContractionTiling &t) {
  using Right = ContractionTiling::Right;
  auto rows = c.knownSize(c.rows), columns = c.knownSize(c.column);
  if (readsPanels(c, t))
    return Right::Prepacked;
  if (c.right.isWindow)
    return Right::Pack;
  if (c.right.unitLoop == c.depth)
    return rows && *rows <= fewRows ? Right::Rows : Right::PackTransposed;
  bool inPlace = rows && *rows <= 2 * t.rows && t.pair == 1 &&
                 isLoadable(c.right.memory, c.element) && c.right.isRegular &&
                 c.right.unitLoop == c.column && columns &&
                 *columns % t.columns() == 0;
  return inPlace ? Right::InPlace : Right::Pack;
}

} // namespace

int64_t ContractionTiling::dotColumns() const {
  // As many accumulators as registers hold beside the operands.
  int64_t most = lanes >= 8 && vectors == 4 ? 24 : 12;
  if (multipliesBytes() && bytes.kind == ByteDots::Kind::Halves)
    most /= 2;
  return std::clamp<int64_t>(most / rows, 1, 8);
}

ContractionTiling ContractionTiling::choose(const Contraction &c,
                                            const TargetInfo &target) {
  ContractionTiling t;
  t.lanes = target.lanes(c.element.getIntOrFloatBitWidth());
  auto rows = c.knownSize(c.rows), columns = c.knownSize(c.column);
  auto depth = c.knownSize(c.depth);
  t.pair = depthsOfWord(c, target);
  t.bytes = ByteDots::of(target);
  ArrayRef<BlockShape> shapes = shapesFor(target, t);
  std::optional<int64_t> vectors;
  if (readsPanels(c, t))
    vectors = c.right.panels->width / t.lanes;
  Wanted wanted{rows, columns, vectors};
  std::optional<BlockShape> shape;
  // Strips of rows would each pack a panel again, which a few rows don't make
  // up for: rather more panels.
  bool packsDear =
      c.right.isWindow || (c.right.unitLoop == c.column && !c.right.panels &&
                           rows && *rows > fewRows && *rows <= rowsToPack);
  if (auto batch = c.knownSize(c.batch); packsDear && columns && batch) {
    wanted.panels = ceilDiv(enoughPanels, std::max<int64_t>(*batch, 1));
    shape = chooseShape(shapes, t.lanes, wanted);
    t.packsOnce = shape.has_value();
    wanted.panels = 1;
  }
  if (!shape)
    shape = chooseShape(shapes, t.lanes, wanted);
  if (!shape)
    shape = BlockShape{1, *vectors, 1.0};
  t.tiles = usesTiles(c, t, target);
  if (t.tiles)
    shape = BlockShape{32, vectors.value_or(2) % 2 ? 1 : 2, 1.0};
  t.rows = shape->rows;
  t.vectors = shape->vectors;
  t.right = chooseRight(c, t);
  t.panelWidth =
      t.right == Right::Prepacked ? c.right.panels->width : t.columns();
  if (t.right == Right::Rows) {
    t.rows = std::max<int64_t>(*rows, 1);
    t.vectors = target.avx512 ? 4 : 2;
  }
  bool reads = t.right == Right::InPlace || t.right == Right::Prepacked;
  t.rightElement = reads && t.pair == 1 ? c.right.memory : c.element;
  t.depth = unknownDepth;
  if (depth) {
    // Words count, four bytes being as many as one float.
    int64_t most = largestDepth * (t.multipliesBytes() ? t.pair : 1);
    if (t.tiles)
      most = std::min(most, largestTileDepth);
    int64_t blocks = std::max<int64_t>(1, ceilDiv(*depth, most));
    // A panel that no second block of rows reads need not fit a cache.
    if (!t.copiesRight() && rows && *rows <= t.rows)
      blocks = 1;
    // A row of a tile register is as long as a vector.
    int64_t step = t.lanes * t.pair;
    // Whole windows are packed without finding a point's place by division.
    if (int64_t points = c.right.windowPoints; points && blocks > 1)
      if (int64_t whole = std::lcm(step, points); whole <= largestDepth)
        step = whole;
    t.depth = ceilDiv(ceilDiv(*depth, blocks), step) * step;
  }
  t.rowsPerTile = chooseRowsPerTile(c, t);
  bool direct = c.left.isRegular && c.left.memory;
  // All rows of a tile register lie equally far apart.
  direct &= !t.tiles || c.left.rowsAreRegular;
  if (t.pair > 1)
    direct &= c.left.memory == c.narrow() && c.left.unitLoop == c.depth &&
              depth && *depth % t.pair == 0;
  else
    direct &= c.left.memory == c.element;
  t.packLeft = !direct;
  t.panelsPerTile = choosePanelsPerTile(c, t);
  if (rows && *rows <= fewRows && *rows > 1)
    t.bytesAhead = 4096;
  return t;
}

std::optional<Panels> choosePanels(const Contraction &c,
                                   const TargetInfo &target) {
  linalg::GenericOp op = c.op;
  Type stored = cast<RankedTensorType>(op->getOperand(c.right.number).getType())
                    .getElementType();
  auto columns = c.knownSize(c.column);
  ContractionTiling t;
  t.pair = depthsOfWord(c, target);
  t.bytes = ByteDots::of(target);
  if (!target.fma || !columns || !isPackable(stored, c.element, t.pair))
    return std::nullopt;
  int64_t lanes = target.lanes(c.element.getIntOrFloatBitWidth());
  Wanted wanted{c.knownSize(c.rows), columns};
  // Two registers of either operand make four products of two loads each; with
  // one vector there are three loads for two products.
  wanted.pairs = hasTiles(t, target) && *columns > lanes;
  std::optional<BlockShape> shape =
      chooseShape(shapesFor(target, t), lanes, wanted);
  return Panels{shape->vectors * lanes, t.pair};
}

} // namespace codegen
} // namespace anabranch
