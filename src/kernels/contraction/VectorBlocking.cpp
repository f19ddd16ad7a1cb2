//===- VectorBlocking.cpp - blocks of a product in vector registers -------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/contraction/VectorBlocking.h"

#include "kernels/contraction/BlockShapes.h"
#include "kernels/contraction/ProductCost.h"
#include "kernels/contraction/QuantizedOperand.h"
#include "kernels/contraction/TileSizes.h"
#include "kernels/contraction/VectorPatch.h"
#include "kernels/emit/Memory.h"
#include "machine/processor/MemoryUnits.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using llvm::divideCeilSigned;

namespace anabranch {
namespace kernels {

namespace {

constexpr int64_t enoughPanels = 6;
constexpr int64_t enoughLargeTiles = 16;
/// Each group of panels copies the windows of its rows again.
constexpr int64_t enoughWindowTiles = 4;
/// So many panels share the zero-point compensation of rows.
constexpr int64_t panelsOfCompensation = 4;
/// Up to this many rows, packing costs a notable part of the product.
constexpr int64_t rowsToPack = 96;
/// Fewer rows are read in place, by one pointer each.
constexpr int64_t rowsToInterleave = 4;
/// Tiles of fewer rows than this do not pay for their start.
constexpr int64_t fewestRowsOfTile = 48;
/// Tiles for more workers read panels so often that one worker and two are
/// slower.
constexpr int64_t mostWorkers = 4;
/// Smaller differences of estimates mean nothing.
constexpr double worthwhile = 0.99;

/// Chooses the parts of a blocking one after the other.
class BlockChooser {
public:
  BlockChooser(const Contraction &contraction, const native::TargetInfo &target)
      : contraction(contraction), target(target),
        words(VectorWords::choose(contraction, target)),
        rows(contraction.rowsTogether()),
        columns(contraction.knownSize(contraction.column)),
        batch(contraction.knownSize(contraction.batch)) {}

  VectorBlocking choose(const BlockingParameters &given);

private:
  const Contraction &contraction;
  const native::TargetInfo &target;
  const VectorWords words;
  std::optional<int64_t> rows, columns, batch;
  VectorBlocking blocking;
  Tiling &tiling = blocking.layout.tiling;
  LeftAccess &left = blocking.layout.left;
  RightAccess &right = blocking.layout.right;
  /// Whether the panels alone make enough tiles, so that each is packed once.
  bool packsOnce = false;

  BlockShape chooseBlock(const BlockingParameters &given);
  bool packingIsDear() const;
  bool widensPanelsOnce() const;
  bool readsRightInPlace() const;
  RightAccess::Form chooseRight() const;
  void setRight();
  bool canInterleave() const;
  std::optional<int64_t> rowElements() const;
  LeftAccess chooseLeft() const;
  bool choosePatch();
  int64_t choosePanelsPerTile() const;
  double cyclesOfWorkers() const;
  void shareRows();
  void fit(const BlockingParameters &given);
};

/// Each strip of rows packs a panel again, which is expensive for few rows.
bool BlockChooser::packingIsDear() const {
  return contraction.right.isWindow ||
         (contraction.right.unitLoop == contraction.column &&
          !contraction.right.panels && rows && *rows > fewRows &&
          *rows <= rowsToPack);
}

/// Chooses the block of accumulators. Also finds out whether the panels alone
/// make enough tiles.
BlockShape BlockChooser::chooseBlock(const BlockingParameters &given) {
  ArrayRef<BlockShape> shapes = shapesFor(target, words.word);
  WantedBlock wanted = WantedBlock::of(contraction, target, words);
  for (const BlockShape &shape : shapes)
    if (shape.rows == given.rows && shape.vectors == given.vectors &&
        costOf(shape, words.lanes, wanted))
      return shape;
  std::optional<BlockShape> shape;
  // More panels make more tiles too.
  if (packingIsDear() && columns && batch) {
    wanted.panels =
        divideCeilSigned(enoughPanels, std::max<int64_t>(*batch, 1));
    shape = chooseShape(shapes, words.lanes, wanted);
    packsOnce = shape.has_value();
    wanted.panels = 1;
  }
  if (!shape)
    shape = chooseShape(shapes, words.lanes, wanted);
  return shape ? *shape : BlockShape{1, *wanted.vectors, 1.0};
}

/// Whether so many blocks of rows read a panel that widening it once, for all
/// of them, costs less than widening it in registers.
bool BlockChooser::widensPanelsOnce() const {
  return words.word.kPack == 1 &&
         contraction.right.memory != contraction.element && rows &&
         Widening::of(contraction, words.word).paysOnce(*rows);
}

/// Whether few blocks of rows read each panel, so that a copy would not pay.
bool BlockChooser::readsRightInPlace() const {
  return rows && words.word.kPack == 1 &&
         isLoadable(contraction.right.memory, contraction.element) &&
         contraction.right.isRegular &&
         contraction.right.unitLoop == contraction.column && columns &&
         *rows <= 2 * tiling.rows && *columns % tiling.columns() == 0;
}

RightAccess::Form BlockChooser::chooseRight() const {
  using Form = RightAccess::Form;
  if (words.splitsPanels)
    return Form::CopiedSplit;
  if (words.codes && (!rows || *rows <= tiling.rows))
    return Form::Codes;
  if (QuantizedOperand::find(contraction))
    return Form::Copied;
  if (words.readsPanels(contraction))
    return widensPanelsOnce() ? Form::Copied : Form::Panels;
  if (contraction.right.isWindow)
    return Form::Copied;
  if (contraction.right.unitLoop == contraction.depth)
    return Form::CopiedTransposed;
  return readsRightInPlace() ? Form::InPlace : Form::Copied;
}

void BlockChooser::setRight() {
  right.form = chooseRight();
  right.panelWidth = right.form == RightAccess::Form::Panels
                         ? contraction.right.panels->width
                     : right.form == RightAccess::Form::Codes
                         ? ir::QuantizedWeight::panelColumns
                         : tiling.columns();
  right.element = !right.isCopied() && words.word.kPack == 1
                      ? contraction.right.memory
                      : contraction.element;
}

/// Whether a packed left operand can have the rows of a block side by side, in
/// the type of the accumulators.
bool BlockChooser::canInterleave() const {
  return isa<FloatType>(contraction.element) &&
         words.word.product.pairs != WordProduct::Pairs::Dot &&
         tiling.rows >= rowsToInterleave && tiling.rows <= tiling.lanes;
}

/// The distance of rows that blocks can read from one address. Rows lie an odd
/// number of cache lines apart, so that they do not share sets of a cache.
std::optional<int64_t> BlockChooser::rowElements() const {
  auto depth = contraction.knownSize(contraction.depth);
  if (!depth || contraction.isGrouped || words.word.product.parts() > 1 ||
      !target.isa().loadsAtDistance())
    return std::nullopt;
  int64_t lanes = std::max(tiling.lanes, machine::lineBytes /
                                             elementBytes(contraction.element));
  int64_t lines = divideCeilSigned(*depth, lanes);
  return (lines + (lines + 1) % 2) * lanes;
}

LeftAccess BlockChooser::chooseLeft() const {
  // Each block of columns would split the pairs of each row again.
  bool splitsPairs =
      words.word.product.pairs == WordProduct::Pairs::Split && canInterleave();
  if (!splitsPairs && readsLeftInPlace(contraction, words.word))
    return {};
  if (int64_t run = runReadInPlace(contraction, words.word);
      run && !splitsPairs && !words.codes)
    return {LeftAccess::Form::InPlace, 0, std::nullopt, run};
  if (!canInterleave())
    return {LeftAccess::Form::Rows};
  // Nothing is transposed for rows that are copied as they are.
  if (auto elements = rowElements())
    return {LeftAccess::Form::Rows, *elements};
  return {LeftAccess::Form::Interleaved};
}

/// Reads windows in a copy of a part of the image, if that pays. Returns
/// whether it does.
bool BlockChooser::choosePatch() {
  if (!left.isCopied() || words.word.kPack > 1 ||
      QuantizedOperand::find(contraction))
    return false;
  auto found =
      VectorPatch::choose(contraction, target, tiling.rows, tiling.rowsPerTile);
  if (!found)
    return false;
  left = {LeftAccess::Form::Patch, 0, found->shape};
  tiling.rowsPerTile = left.patch->windowRows * left.patch->windowColumns;
  tiling.depth = found->depthOfBlock(*contraction.knownSize(contraction.depth),
                                     largestDepth);
  return true;
}

/// As many panels as leave enough tiles, in equal parts, if they share work on
/// the rows.
int64_t BlockChooser::choosePanelsPerTile() const {
  auto rows = contraction.knownSize(contraction.rows);
  bool share = left.isCopied() || words.word.needsCompensation();
  if (!share || !rows || !columns || !batch)
    return 1;
  int64_t panels = divideCeilSigned(*columns, tiling.columns());
  int64_t others = divideCeilSigned(*rows, tiling.rowsPerTile) * *batch;
  int64_t wanted = contraction.windows ? enoughWindowTiles : enoughLargeTiles;
  int64_t groups = divideCeilSigned(wanted, std::max<int64_t>(others, 1));
  int64_t perTile = std::max<int64_t>(1, divideCeilSigned(panels, groups));
  // Their compensation is then a small part already; more tiles are better.
  return left.isCopied() ? perTile : std::min(perTile, panelsOfCompensation);
}

/// Cycles of the tiles, and of workers that wait for the last of them.
double BlockChooser::cyclesOfWorkers() const {
  auto rows = contraction.knownSize(contraction.rows);
  int64_t panels = divideCeilSigned(*columns, tiling.columns());
  int64_t tiles = *batch * divideCeilSigned(*rows, tiling.rowsPerTile) *
                  divideCeilSigned(panels, tiling.panelsPerTile);
  return estimateCycles(contraction, target, blocking.layout) *
         imbalance(tiles, mostWorkers);
}

/// Cuts the rows into some more tiles if workers then share them better.
void BlockChooser::shareRows() {
  if (!hasKnownSizes(contraction) || packsOnce)
    return;
  int64_t all = *contraction.knownSize(contraction.rows);
  int64_t strips = divideCeilSigned(all, tiling.rowsPerTile);
  VectorBlocking best = blocking;
  double lowest = cyclesOfWorkers();
  for (int64_t count = strips + 1; count <= 2 * strips; ++count) {
    tiling.rowsPerTile =
        divideCeilSigned(divideCeilSigned(all, count), tiling.rows) *
        tiling.rows;
    if (tiling.rowsPerTile < fewestRowsOfTile || (left.patch && !choosePatch()))
      break;
    double cycles = cyclesOfWorkers();
    if (cycles > worthwhile * lowest)
      continue;
    lowest = cycles;
    best = blocking;
  }
  blocking = best;
}

/// Sets given parameters, rounded to what fits.
void BlockChooser::fit(const BlockingParameters &given) {
  auto depth = contraction.knownSize(contraction.depth);
  if (!left.patch) {
    if (given.depth && depth)
      tiling.depth =
          fitSize(*given.depth, blocking.layout.depthStep(*depth), *depth);
    fitRows(contraction, given, tiling);
  }
  if (given.panelsPerTile && columns)
    tiling.panelsPerTile = fitSize(
        *given.panelsPerTile, 1, divideCeilSigned(*columns, tiling.columns()));
  blocking.bytesAhead = fitBytesAhead(given, blocking.bytesAhead);
}

VectorBlocking BlockChooser::choose(const BlockingParameters &given) {
  blocking.layout.word = words.word;
  tiling.lanes = words.lanes;
  BlockShape shape = chooseBlock(given);
  tiling.rows = shape.rows;
  tiling.vectors = shape.vectors;
  setRight();
  left = chooseLeft();
  tiling.depth = chooseDepth(contraction, tiling, words.word, right.isCopied(),
                             std::max<int64_t>(left.run, 1));
  tiling.rowsPerTile = chooseRowsPerTile(contraction, tiling, packsOnce);
  choosePatch();
  tiling.panelsPerTile = choosePanelsPerTile();
  shareRows();
  blocking.bytesAhead = chooseBytesAhead(contraction, target);
  fit(given);
  return blocking;
}

} // namespace

VectorBlocking VectorBlocking::choose(const Contraction &contraction,
                                      const native::TargetInfo &target,
                                      const BlockingParameters &given) {
  return BlockChooser(contraction, target).choose(given);
}

std::optional<Panels> panelsOfVectors(const Contraction &contraction,
                                      const native::TargetInfo &target,
                                      PanelsFor purpose) {
  linalg::GenericOp op = contraction.op;
  Type stored =
      cast<RankedTensorType>(op->getOperand(contraction.right.number).getType())
          .getElementType();
  auto columns = contraction.knownSize(contraction.column);
  VectorWords words{target.lanes(contraction.element.getIntOrFloatBitWidth()),
                    widestWord(contraction, target)};
  if (!columns || !isPackable(stored, contraction.element, words.word))
    return std::nullopt;
  WantedBlock wanted = WantedBlock::of(contraction, target, words);
  wanted.vectors = std::nullopt;
  wanted.rows = purpose == PanelsFor::Rows
                    ? contraction.knownSize(contraction.rows)
                    : std::nullopt;
  // Tile registers may read the panels of a product of few rows for one of more
  // rows, two vectors at a time. So the number of vectors must be even.
  wanted.isEven = target.isa().has(native::Multiply::TileInt8) &&
                  words.word.holdsBytes() && *columns > words.lanes;
  std::optional<BlockShape> shape =
      chooseShape(shapesFor(target, words.word), words.lanes, wanted);
  return Panels{shape->vectors * words.lanes, words.word.panelPack()};
}

} // namespace kernels
} // namespace anabranch
