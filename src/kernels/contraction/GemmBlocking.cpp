//===- GemmBlocking.cpp - how a product is cut up -------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/contraction/GemmBlocking.h"

#include "kernels/contraction/AmxBlocking.h"
#include "kernels/contraction/QuantizedOperand.h"
#include "kernels/contraction/VectorPatch.h"
#include "kernels/emit/Memory.h"
#include "kernels/microkernel/AmxBlock.h"
#include "mlir/IR/BuiltinTypes.h"

#include <numeric>
#include <tuple>

using namespace mlir;

namespace anabranch {
namespace kernels {

namespace {

constexpr BlockShape wideShapes[] = {
    {6, 4, 1.0},  {8, 3, 1.0},  {12, 2, 1.02}, {4, 4, 1.1},  {5, 4, 1.03},
    {7, 3, 1.02}, {6, 3, 1.05}, {8, 2, 1.1},   {2, 4, 1.5},  {1, 4, 2.5},
    {3, 4, 1.25}, {14, 1, 1.3}, {8, 1, 1.5},   {10, 2, 1.05}};
constexpr BlockShape narrowShapes[] = {{6, 2, 1.0},  {4, 3, 1.0}, {5, 2, 1.03},
                                       {4, 2, 1.1},  {3, 2, 1.3}, {2, 2, 1.6},
                                       {1, 2, 2.5},  {1, 4, 2.2}, {2, 4, 1.5},
                                       {10, 1, 1.2}, {6, 1, 1.5}};

// Bytes that are widened to 16 bits take two registers for each operand.
constexpr BlockShape wideWidened[] = {{10, 2, 1.0}, {8, 2, 1.0},  {6, 2, 1.05},
                                      {4, 2, 1.2},  {2, 2, 1.6},  {1, 4, 2.2},
                                      {1, 2, 2.5},  {12, 1, 1.2}, {4, 1, 1.6}};
constexpr BlockShape narrowWidened[] = {{4, 2, 1.0}, {3, 2, 1.1}, {2, 2, 1.4},
                                        {8, 1, 1.1}, {4, 1, 1.4}, {1, 2, 2.2}};

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The cost of widening the right operand in registers: instructions for each
/// vector and depth, and the registers that a vector takes.
struct Widening {
  double instructions = 0;
  int64_t registers = 1;
};

/// What a block shape must fit.
struct Wanted {
  std::optional<int64_t> rows, columns; ///< if they are known
  std::optional<int64_t> vectors = {};  ///< of a panel, which blocks divide
  int64_t panels = 1;                   ///< at least this many, of two vectors
  bool isEven = false;                  ///< an even number of vectors
  Widening widening = {};
  int64_t registers = 16;
};

/// Whether blocks of accumulators can be those of 32 registers.
bool hasManyRegisters(const native::TargetInfo &target) {
  return target.isa().vectorRegisters() > 16;
}

ArrayRef<BlockShape> shapesFor(const native::TargetInfo &target,
                               const GemmBlocking &blocking) {
  if (blocking.multipliesInt8() && blocking.int8.kind == Int8Dot::Kind::Widened)
    return hasManyRegisters(target) ? ArrayRef(wideWidened)
                                    : ArrayRef(narrowWidened);
  return hasManyRegisters(target) ? ArrayRef(wideShapes)
                                  : ArrayRef(narrowShapes);
}

Widening wideningOf(const Contraction &contraction,
                    const GemmBlocking &blocking) {
  if (blocking.pairs == WordProduct::Pairs::Split)
    return {1, 2};
  Type narrow = contraction.narrow();
  if (blocking.kPack > 1 || !narrow || !isa<FloatType>(narrow))
    return {};
  // One instruction brings the elements to their lanes, and one widens them.
  return {2, 1};
}

/// Whether so many rows read a vector that storing it widened costs less than
/// widening it in each block of rows.
bool paysToWidenOnce(int64_t rows, const Widening &widening) {
  constexpr double rowsOfBlock = 12, storing = 3;
  return rows / rowsOfBlock * widening.instructions >
         widening.instructions + storing;
}

/// The cost of a multiply-add of the product in blocks of this shape; none if
/// the shape does not fit.
std::optional<double> costOf(const BlockShape &shape, int64_t lanes,
                             const Wanted &wanted) {
  auto [rows, columns, vectors, panels, isEven, widening, registers] = wanted;
  if ((vectors && *vectors % shape.vectors != 0) ||
      (isEven && shape.vectors % 2 != 0))
    return std::nullopt;
  if (panels > 1 &&
      (shape.vectors < 2 || ceilDiv(*columns, shape.vectors * lanes) < panels))
    return std::nullopt;
  // One more register has a left element in all its lanes.
  int64_t needed = shape.vectors * (shape.rows + widening.registers) + 1;
  if (widening.instructions && needed > registers)
    return std::nullopt;
  double cost = shape.cost + widening.instructions / shape.rows;
  if (rows && *rows)
    cost *= double(ceilDiv(*rows, shape.rows) * shape.rows) / *rows;
  if (columns && *columns) {
    int64_t width = shape.vectors * lanes;
    cost *= double(ceilDiv(*columns, width) * width) / *columns;
  }
  return cost;
}

/// The block shape that computes least in vain.
std::optional<BlockShape> chooseShape(ArrayRef<BlockShape> shapes,
                                      int64_t lanes, const Wanted &wanted) {
  std::optional<BlockShape> best;
  double bestCost = 0;
  for (const BlockShape &shape : shapes) {
    std::optional<double> cost = costOf(shape, lanes, wanted);
    if (cost && (!best || *cost < bestCost * 0.999)) {
      best = shape;
      bestCost = *cost;
    }
  }
  return best;
}

constexpr int64_t unknownDepth = 384;
constexpr int64_t largestDepth = 512;
constexpr int64_t unknownRows = 192;
constexpr int64_t largestRows = 288;
constexpr int64_t enoughTiles = 8;
constexpr int64_t enoughPanels = 6;
constexpr int64_t enoughLargeTiles = 16;
/// Each group of panels copies the windows of its rows again.
constexpr int64_t enoughWindowTiles = 4;
/// Up to this many rows, reading the right operand takes most of the time.
constexpr int64_t fewRows = 8;
/// Up to this many rows of a group, dot products of some rows at a time cost
/// less than a copy of the right operand; and how many rows at a time.
constexpr int64_t rowsOfGroup = 16, rowsOfGroupDots = 4;
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
  bool packs = blocking.packLeft && blocking.hasBlocks();
  if (!packs || !rows || !columns || !batch)
    return 1;
  int64_t panels = ceilDiv(*columns, blocking.columns());
  int64_t others = ceilDiv(*rows, blocking.rowsPerTile) * *batch;
  int64_t wanted = contraction.windows ? enoughWindowTiles : enoughLargeTiles;
  int64_t groups = ceilDiv(wanted, std::max<int64_t>(others, 1));
  return std::max<int64_t>(1, ceilDiv(panels, groups));
}

/// The faster of the ways in which the processor can multiply pairs of bf16.
WordProduct::Pairs choosePairs(const Contraction &contraction,
                               const native::TargetInfo &target) {
  Type narrow = contraction.narrow();
  if (!narrow || !narrow.isBF16() || !contraction.element.isF32())
    return WordProduct::Pairs::None;
  bool dots = target.rate(native::Multiply::DotBF16) >
              target.rate(native::Multiply::FmaF32);
  return dots ? WordProduct::Pairs::Dot : WordProduct::Pairs::Split;
}

Int8Dot dotsOf(const Contraction &contraction,
               const native::TargetInfo &target) {
  return Int8Dot::of(target, contraction.left.isUnsigned(),
                     contraction.right.isUnsigned());
}

/// Sets what a word holds and how words are multiplied.
void chooseWord(const Contraction &contraction,
                const native::TargetInfo &target, GemmBlocking &blocking) {
  blocking.int8 = dotsOf(contraction, target);
  blocking.pairs = choosePairs(contraction, target);
  blocking.kPack = 1;
  if (contraction.multipliesInt8())
    blocking.kPack = 4;
  else if (blocking.pairs != WordProduct::Pairs::None)
    blocking.kPack = 2;
}

/// Whether the micro-kernel can load and widen this type.
bool isLoadable(Type type, Type element) {
  return type && (type == element ||
                  (element.isF32() && (type.isBF16() || type.isF16())));
}

/// Whether panels of this type can be read in place.
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

/// Whether so many rows read panels of pairs that splitting them once, for all
/// blocks of rows, costs less than splitting them in registers.
bool splitsPanelsOnce(const Contraction &contraction,
                      const GemmBlocking &blocking) {
  auto rows = contraction.rowsTogether();
  return blocking.pairs == WordProduct::Pairs::Split && rows &&
         paysToWidenOnce(*rows, wideningOf(contraction, blocking)) &&
         readsPanels(contraction, blocking);
}

/// Whether the right operand is copied without a transposition. Widening it in
/// the copy then costs less than making pairs that are split later.
bool widensInCopy(const Contraction &contraction,
                  const GemmBlocking &blocking) {
  return blocking.pairs == WordProduct::Pairs::Split &&
         !readsPanels(contraction, blocking) &&
         contraction.right.unitLoop != contraction.depth;
}

/// Whether pairs of a live operand would be made of columns that a product of
/// few rows can read in place at less cost.
bool readsFewRowsInPlace(const Contraction &contraction,
                         const GemmBlocking &blocking) {
  auto rows = contraction.rowsTogether();
  return blocking.kPack == 2 && rows && *rows <= fewRows &&
         !contraction.right.panels && !contraction.right.isWindow &&
         contraction.right.unitLoop == contraction.column &&
         isLoadable(contraction.right.memory, contraction.element);
}

/// Whether so many blocks of rows read a panel that widening it once, for all
/// of them, costs less than widening it in registers.
bool widensPanelsOnce(const Contraction &contraction,
                      const GemmBlocking &blocking) {
  auto rows = contraction.rowsTogether();
  return blocking.kPack == 1 &&
         contraction.right.memory != contraction.element && rows &&
         paysToWidenOnce(*rows, wideningOf(contraction, blocking));
}

/// The bytes of the right operand, if its sizes are known.
std::optional<int64_t> rightBytes(const Contraction &contraction) {
  auto columns = contraction.knownSize(contraction.column),
       depth = contraction.knownSize(contraction.depth);
  if (!columns || !depth || !contraction.right.memory)
    return std::nullopt;
  return *columns * *depth * elementBytes(contraction.right.memory);
}

/// Whether the right operand is too large for the second-level cache.
bool liesInMemory(const Contraction &contraction,
                  const native::TargetInfo &target) {
  return rightBytes(contraction).value_or(0) > target.model.l2Bytes;
}

/// Whether reading the right operand in the order of memory gains more than
/// sums cost that are not in registers. The sums of more rows cost more.
bool sumsRows(const Contraction &contraction, const native::TargetInfo &target,
              const GemmBlocking &blocking) {
  constexpr int64_t mostRows = 2, mostFromMemory = 4;
  int64_t rows = *contraction.rowsTogether();
  bool fromMemory = liesInMemory(contraction, target);
  return rows <= (fromMemory ? mostFromMemory : mostRows) &&
         *contraction.knownSize(contraction.column) >= blocking.lanes &&
         !contraction.isGrouped && isa<FloatType>(contraction.element);
}

GemmBlocking::Right chooseRight(const Contraction &contraction,
                                const native::TargetInfo &target,
                                const GemmBlocking &blocking) {
  using Right = GemmBlocking::Right;
  auto rows = contraction.rowsTogether(),
       columns = contraction.knownSize(contraction.column);
  if (blocking.splitsPanels || QuantizedOperand::find(contraction))
    return Right::Pack;
  if (readsPanels(contraction, blocking))
    return widensPanelsOnce(contraction, blocking) ? Right::Pack
                                                   : Right::Prepacked;
  if (contraction.right.isWindow)
    return Right::Pack;
  int64_t rowsOfDots = contraction.isGrouped ? rowsOfGroup : fewRows;
  if (contraction.right.unitLoop == contraction.depth)
    return rows && *rows <= rowsOfDots ? Right::RowDots : Right::PackTransposed;
  bool inPlace = rows && blocking.kPack == 1 &&
                 isLoadable(contraction.right.memory, contraction.element) &&
                 contraction.right.isRegular &&
                 contraction.right.unitLoop == contraction.column && columns;
  if (!inPlace)
    return Right::Pack;
  if (sumsRows(contraction, target, blocking))
    return Right::RowSums;
  bool areBlocks =
      *rows <= 2 * blocking.rows && *columns % blocking.columns() == 0;
  return areBlocks ? Right::InPlace : Right::Pack;
}

Wanted wantedBlock(const Contraction &contraction,
                   const native::TargetInfo &target,
                   const GemmBlocking &blocking) {
  std::optional<int64_t> vectors;
  if (blocking.splitsPanels || readsPanels(contraction, blocking))
    vectors = contraction.right.panels->width / blocking.lanes;
  Wanted wanted{contraction.rowsTogether(),
                contraction.knownSize(contraction.column), vectors};
  wanted.widening = wideningOf(contraction, blocking);
  wanted.registers = target.isa().vectorRegisters();
  return wanted;
}

/// Chooses the block of accumulators in vector registers. Also finds out
/// whether the panels alone make enough tiles.
BlockShape chooseBlock(const Contraction &contraction,
                       const native::TargetInfo &target,
                       const BlockingParameters &given,
                       GemmBlocking &blocking) {
  ArrayRef<BlockShape> shapes = shapesFor(target, blocking);
  auto rows = contraction.rowsTogether(),
       columns = contraction.knownSize(contraction.column);
  Wanted wanted = wantedBlock(contraction, target, blocking);
  for (const BlockShape &shape : shapes)
    if (shape.rows == given.rows && shape.vectors == given.vectors &&
        costOf(shape, blocking.lanes, wanted))
      return shape;
  std::optional<BlockShape> shape;
  // Each strip of rows packs a panel again, which is expensive for few rows.
  // More panels make more tiles too.
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
  return shape ? *shape : BlockShape{1, *wanted.vectors, 1.0};
}

/// The vectors of a row of a tile: as many as leave enough tiles, and whose
/// sums the first-level cache holds.
int64_t chooseRowVectors(const Contraction &contraction,
                         const GemmBlocking &blocking) {
  constexpr int64_t bytesOfSums = 16384, fewest = 4;
  // A processor's prefetch needs some lines of each row.
  constexpr int64_t fewTiles = 2, manyTiles = 4, columnsOfRow = 512;
  int64_t columns = *contraction.knownSize(contraction.column);
  int64_t batch = contraction.knownSize(contraction.batch).value_or(1);
  int64_t tiles = std::clamp(columns / columnsOfRow, fewTiles, manyTiles);
  tiles = ceilDiv(tiles, std::max<int64_t>(batch, 1));
  int64_t most = bytesOfSums / (blocking.lanes * blocking.rows *
                                elementBytes(contraction.element));
  int64_t vectors = ceilDiv(columns, tiles * blocking.lanes);
  return std::clamp(vectors, fewest, std::max(most, fewest));
}

/// The depth of a panel: equal parts of the whole depth, if that is known.
int64_t chooseDepth(const Contraction &contraction,
                    const GemmBlocking &blocking) {
  auto rows = contraction.rowsTogether(),
       depth = contraction.knownSize(contraction.depth);
  if (!depth)
    return unknownDepth;
  // A word of four bytes is as large as one float.
  int64_t most =
      largestDepth * (blocking.multipliesInt8() ? blocking.kPack : 1);
  int64_t blocks = std::max<int64_t>(1, ceilDiv(*depth, most));
  // A panel that no second block of rows reads need not fit a cache.
  if (!blocking.copiesRight() && rows && *rows <= blocking.rows)
    blocks = 1;
  int64_t step = blocking.lanes * blocking.kPack;
  // If whole windows are packed, a point's place needs no division.
  if (int64_t points = contraction.right.windowPoints; points && blocks > 1)
    if (int64_t whole = std::lcm(step, points); whole <= largestDepth)
      step = whole;
  return ceilDiv(ceilDiv(*depth, blocks), step) * step;
}

/// Whether a core does not reach the loads of the right operand early by
/// itself: it multiplies several rows, and the operand comes from beyond the
/// second-level cache each time.
bool fetchesAhead(const Contraction &contraction,
                  const native::TargetInfo &target) {
  auto rows = contraction.rowsTogether();
  if (!rows || *rows <= 1)
    return false;
  return *rows <= fewRows ||
         rightBytes(contraction).value_or(0) > target.model.l2Bytes;
}

/// Fewer rows are read in place, by one pointer each.
constexpr int64_t rowsToInterleave = 4;

/// Whether a packed left operand can have the rows of a block side by side, in
/// the type of the accumulators.
bool canInterleave(const Contraction &contraction,
                   const GemmBlocking &blocking) {
  return !blocking.usesAmx && blocking.hasBlocks() &&
         isa<FloatType>(contraction.element) &&
         blocking.pairs != WordProduct::Pairs::Dot &&
         blocking.rows >= rowsToInterleave && blocking.rows <= blocking.lanes;
}

/// Whether the micro-kernel can read the left operand in place.
bool readsLeftInPlace(const Contraction &contraction,
                      const GemmBlocking &blocking) {
  const ContractionOperand &left = contraction.left;
  if (!left.isRegular || !left.memory)
    return false;
  if (blocking.kPack == 1)
    return left.memory == contraction.element;
  // Each block of columns would split the pairs of each row again.
  if (blocking.pairs == WordProduct::Pairs::Split &&
      canInterleave(contraction, blocking))
    return false;
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
  product.pairs = pairs;
  return product;
}

int64_t GemmBlocking::dotColumns() const {
  // As many accumulators as registers hold beside the operands.
  int64_t most = lanes >= 8 && vectors == 4 ? 24 : 12;
  if (multipliesInt8() && int8.kind == Int8Dot::Kind::Widened)
    most /= 2;
  return std::clamp<int64_t>(most / rows, 1, 8);
}

/// A blocking for AMX registers.
static GemmBlocking blockingOf(const AmxBlocking &amx,
                               const Contraction &contraction,
                               const native::TargetInfo &target) {
  using Right = GemmBlocking::Right;
  GemmBlocking blocking;
  blocking.usesAmx = true;
  blocking.lanes = target.lanes(contraction.element.getIntOrFloatBitWidth());
  blocking.kPack = amx.kPack;
  blocking.int8 = dotsOf(contraction, target);
  blocking.parts = amx.parts;
  blocking.scaledDepth = amx.scaledDepth;
  blocking.rows = AmxBlock::rows;
  blocking.vectors = amx.vectors;
  blocking.depth = amx.depth;
  blocking.depthOutside = amx.depthOutside;
  blocking.stepWords = amx.stepWords;
  blocking.rowsPerTile = amx.rowsPerTile;
  blocking.panelsPerTile = amx.panelsPerTile;
  blocking.packLeft = amx.packLeft;
  blocking.patch = amx.patch;
  blocking.linesAhead = amx.linesAhead;
  blocking.bytesAhead = amx.bytesAhead;
  bool isTransposed = contraction.right.unitLoop == contraction.depth &&
                      !contraction.right.isWindow;
  bool readsPanels =
      amx.readsPanels && !(amx.patch && amx.patch->padsChannels());
  blocking.right = readsPanels    ? Right::Prepacked
                   : isTransposed ? Right::PackTransposed
                                  : Right::Pack;
  blocking.panelWidth =
      readsPanels ? contraction.right.panels->width : blocking.columns();
  blocking.rightElement = contraction.element;
  return blocking;
}

/// A blocking in vector registers in which only the words are chosen.
static GemmBlocking vectorWords(const Contraction &contraction,
                                const native::TargetInfo &target) {
  GemmBlocking blocking;
  blocking.lanes = target.lanes(contraction.element.getIntOrFloatBitWidth());
  chooseWord(contraction, target, blocking);
  blocking.splitsPanels = splitsPanelsOnce(contraction, blocking);
  if (blocking.splitsPanels || readsFewRowsInPlace(contraction, blocking) ||
      widensInCopy(contraction, blocking)) {
    blocking.kPack = 1;
    blocking.pairs = WordProduct::Pairs::None;
  }
  return blocking;
}

std::vector<BlockShape> blockShapes(const Contraction &contraction,
                                    const native::TargetInfo &target) {
  GemmBlocking blocking = vectorWords(contraction, target);
  Wanted wanted = wantedBlock(contraction, target, blocking);
  std::vector<BlockShape> shapes;
  for (const BlockShape &shape : shapesFor(target, blocking))
    if (auto cost = costOf(shape, blocking.lanes, wanted))
      shapes.push_back({shape.rows, shape.vectors, *cost});
  llvm::sort(shapes, [](const BlockShape &a, const BlockShape &b) {
    return std::tuple(a.cost, a.rows, a.vectors) <
           std::tuple(b.cost, b.rows, b.vectors);
  });
  return shapes;
}

GemmBlocking GemmBlocking::choose(const Contraction &contraction,
                                  const native::TargetInfo &target,
                                  const BlockingParameters &given) {
  std::optional<AmxBlocking> amx;
  if (given.amx != 0)
    amx = AmxBlocking::choose(contraction, target);
  GemmBlocking blocking = amx ? blockingOf(*amx, contraction, target)
                              : chooseVectors(contraction, target, given);
  blocking.setTile(contraction, given);
  return blocking;
}

/// Rounds given parameters to what fits.
void GemmBlocking::setTile(const Contraction &contraction,
                           const BlockingParameters &given) {
  auto rowCount = contraction.knownSize(contraction.rows),
       columnCount = contraction.knownSize(contraction.column),
       depthCount = contraction.knownSize(contraction.depth);
  auto fit = [](int64_t value, int64_t step, int64_t most) {
    int64_t all = ceilDiv(std::max<int64_t>(most, 1), step) * step;
    return std::clamp(ceilDiv(std::min(value, all), step) * step, step, all);
  };
  if (given.depth && depthCount && hasBlocks() && !patch) {
    depth = fit(*given.depth, depthStep(*depthCount), *depthCount);
    depthOutside = (depthOutside || hasParts()) && *depthCount > depth;
  }
  if (given.rowsPerTile && rowCount && !patch)
    rowsPerTile = fit(*given.rowsPerTile, rows, *rowCount);
  if (given.panelsPerTile && columnCount && hasBlocks())
    panelsPerTile =
        fit(*given.panelsPerTile, 1, ceilDiv(*columnCount, columns()));
  constexpr int64_t farthest = 65536;
  if (given.bytesAhead && !usesAmx)
    bytesAhead = std::min(*given.bytesAhead, farthest);
}

/// Reads windows in a copy of a part of the image, if that pays.
void GemmBlocking::choosePatch(const Contraction &contraction,
                               const native::TargetInfo &target) {
  if (!packLeft || kPack > 1 || !hasBlocks() ||
      QuantizedOperand::find(contraction))
    return;
  auto found = VectorPatch::choose(contraction, target, rows, rowsPerTile);
  if (!found)
    return;
  patch = found->shape;
  interleavesLeft = false;
  rowsPerTile = patch->windowRows * patch->windowColumns;
  depth = found->depthOfBlock(*contraction.knownSize(contraction.depth),
                              largestDepth);
}

GemmBlocking GemmBlocking::chooseVectors(const Contraction &contraction,
                                         const native::TargetInfo &target,
                                         const BlockingParameters &given) {
  GemmBlocking blocking = vectorWords(contraction, target);
  BlockShape shape = chooseBlock(contraction, target, given, blocking);
  blocking.rows = shape.rows;
  blocking.vectors = shape.vectors;
  blocking.right = chooseRight(contraction, target, blocking);
  blocking.panelWidth = blocking.right == Right::Prepacked
                            ? contraction.right.panels->width
                            : blocking.columns();
  auto rows = contraction.rowsTogether();
  if (blocking.right == Right::RowDots) {
    int64_t most = contraction.isGrouped ? rowsOfGroupDots : *rows;
    blocking.rows = std::clamp<int64_t>(*rows, 1, std::max<int64_t>(most, 1));
    blocking.vectors = hasManyRegisters(target) ? 4 : 2;
  }
  if (blocking.right == Right::RowSums) {
    if (target.halvesVectors() && liesInMemory(contraction, target) &&
        elementBytes(contraction.right.memory) == 4)
      blocking.lanes /= 2;
    blocking.rows = std::max<int64_t>(*rows, 1);
    blocking.vectors = chooseRowVectors(contraction, blocking);
  }
  bool reads =
      blocking.right == Right::InPlace || blocking.right == Right::Prepacked;
  blocking.rightElement = reads && blocking.kPack == 1
                              ? contraction.right.memory
                              : contraction.element;
  blocking.depth = chooseDepth(contraction, blocking);
  blocking.rowsPerTile = chooseRowsPerTile(contraction, blocking);
  blocking.packLeft = !readsLeftInPlace(contraction, blocking);
  blocking.interleavesLeft =
      blocking.packLeft && canInterleave(contraction, blocking);
  blocking.choosePatch(contraction, target);
  blocking.panelsPerTile = choosePanelsPerTile(contraction, blocking);
  if (fetchesAhead(contraction, target))
    blocking.bytesAhead = 4096;
  return blocking;
}

std::optional<Panels> choosePanels(const Contraction &contraction,
                                   const native::TargetInfo &target,
                                   PanelsFor purpose) {
  if (auto panels = AmxBlocking::choosePanels(contraction, target))
    return panels;
  linalg::GenericOp op = contraction.op;
  Type stored =
      cast<RankedTensorType>(op->getOperand(contraction.right.number).getType())
          .getElementType();
  auto columns = contraction.knownSize(contraction.column);
  GemmBlocking blocking;
  chooseWord(contraction, target, blocking);
  if (!columns || !isPackable(stored, contraction.element, blocking.kPack))
    return std::nullopt;
  int64_t lanes = target.lanes(contraction.element.getIntOrFloatBitWidth());
  Wanted wanted{std::nullopt, columns};
  if (purpose == PanelsFor::Rows)
    wanted.rows = contraction.knownSize(contraction.rows);
  wanted.widening = wideningOf(contraction, blocking);
  wanted.registers = target.isa().vectorRegisters();
  // AMX may read the panels of a product of few rows for one of more rows, two
  // vectors at a time. So the number of vectors must be even.
  wanted.isEven = target.isa().has(native::Multiply::AmxInt8) &&
                  blocking.multipliesInt8() && *columns > lanes;
  std::optional<BlockShape> shape =
      chooseShape(shapesFor(target, blocking), lanes, wanted);
  return Panels{shape->vectors * lanes, blocking.kPack};
}

} // namespace kernels
} // namespace anabranch
