//===- TileBlocking.cpp - how a product is cut up for tiles ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/tileblocks/TileBlocking.h"

#include "kernels/contraction/ProductCost.h"
#include "kernels/contraction/QuantizedOperand.h"
#include "kernels/contraction/TileSizes.h"
#include "kernels/emit/Memory.h"
#include "kernels/microkernel/FloatParts.h"
#include "kernels/microkernel/TileBlock.h"
#include "kernels/microkernel/WordProduct.h"
#include "machine/processor/MemoryUnits.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using llvm::alignTo;
using llvm::divideCeil;

namespace anabranch {
namespace kernels {

namespace {

constexpr int64_t lanes = 16; ///< columns of a register
constexpr int64_t unknownRows = 256;
constexpr int64_t mostWorkers = 8;
/// Enough tiles for the workers to share, and the least bytes of panels that
/// all blocks of a tile read together.
constexpr int64_t enoughTiles = 16, enoughPanelTiles = 32,
                  enoughFewRowTiles = 64;
/// Each group of panels copies the windows of its rows again.
constexpr int64_t enoughWindowTiles = 4;
constexpr int64_t leastTileBytes = 32 * 1024;
/// With fewer rows than this, a tile shares a panel among too few; the second
/// number is for a panel that is copied.
constexpr int64_t leastRows = 64, leastRowsOfCopy = 128;
/// Rows of a strip that multiply a panel in the time in which the next one
/// comes from the third-level cache. Bytes are multiplied faster. So, if groups
/// of panels are large, they are better than strips of fewer rows.
constexpr int64_t rowsOfStrip = 128, rowsOfByteStrip = 160, manyPanels = 8;
/// Panels of a tile whose left operand exceeds the second-level cache. Each
/// block of that operand is read once for all of these panels.
constexpr int64_t panelsOfGroup = 16, copiesOfGroup = 8;
/// The second-level cache holds so many copies of windows, and so many times
/// all panels of a product whose tiles have all of them.
constexpr int64_t patchOfCache = 3, panelsOfCache = 8;
/// How large the empty part of a step may be, in units of the rest.
constexpr double mostEmpty = 3;
/// How far ahead, in bytes, a panel is fetched that only one block of rows
/// reads.
constexpr int64_t bytesOfStream = 8192;

/// Up to so many rows, dot products read a right operand in place.
constexpr int64_t rowsOfDots = 8;

// Of products of parts. Each tile copies its part of both operands.
constexpr int64_t enoughPartTiles = 6, mostPartRows = 256;
/// The same of parts that multiply integers. Their copy of a left operand is
/// larger than that of the right one.
constexpr int64_t enoughIntegerTiles = 4, mostIntegerRows = 128;

/// The words that tile registers multiply (RegisterSteps); a K-pack factor of
/// zero for other operands.
struct Words {
  int64_t kPack = 0, parts = 1, scaledDepth = 0;
};

/// Chooses the parts of a blocking one after the other.
class Chooser {
public:
  Chooser(const Contraction &contraction, const native::TargetInfo &target,
          const Words &words)
      : contraction(contraction), target(target),
        rows(contraction.knownSize(contraction.rows)),
        columns(contraction.knownSize(contraction.column)),
        depth(contraction.knownSize(contraction.depth)),
        batch(contraction.knownSize(contraction.batch)) {
    tiling.lanes = lanes;
    tiling.rows = TileBlock::rows;
    word.kPack = words.kPack;
    steps.words = TileBlock::words;
    steps.parts = words.parts;
    steps.scaledDepth = words.scaledDepth;
  }

  void choose();
  /// Why vector registers are better; nothing if they are not.
  std::optional<std::string> refusal() const;
  TileBlocking fit(const BlockingParameters &given);
  double cyclesOfParts() const;

private:
  const Contraction &contraction;
  const native::TargetInfo &target;
  const machine::KernelCycles &cycles = target.model.cycles;
  std::optional<int64_t> rows, columns, depth, batch;
  TileBlocking blocking;
  Tiling &tiling = blocking.layout.tiling;
  Word &word = blocking.layout.word;
  LeftAccess &left = blocking.layout.left;
  RegisterSteps &steps = blocking.layout.steps;
  bool inPanels = false; ///< the right operand is read in its panels

  bool isInt8() const { return word.kPack == 4; }
  bool hasParts() const { return steps.hasParts(); }
  bool multipliesIntegers() const { return steps.multipliesIntegers(); }
  int64_t rightParts() const { return steps.rightParts(); }
  /// In the form that blocks read.
  int64_t elementBytes() const { return rightParts() * wordBytes / word.kPack; }
  int64_t stepDepths() const { return blocking.layout.stepDepths(); }
  int64_t blockColumns() const { return tiling.columns(); }
  int64_t panels() const { return divideCeil(*columns, blockColumns()); }
  /// Groups of panels that a tile each multiplies.
  int64_t groups() const { return divideCeil(panels(), tiling.panelsPerTile); }
  int64_t strips() const {
    return divideCeil(std::max<int64_t>(*rows, 1), tiling.rowsPerTile);
  }
  int64_t blocksOfTile() const {
    int64_t rows = left.patch ? left.patch->numbers() : tiling.rowsPerTile;
    return divideCeil(rows, TileBlock::rows);
  }
  int64_t tilesEnough() const {
    if (multipliesIntegers())
      return enoughIntegerTiles;
    return hasParts() ? enoughPartTiles : enoughTiles;
  }
  /// Whether panels of floats are copied as parts, two in turns.
  bool copiesPanels() const {
    return hasParts() && contraction.right.panels.has_value();
  }
  bool transposesRight() const {
    return !contraction.right.panels && !multipliesIntegers() &&
           contraction.right.unitLoop == contraction.depth;
  }
  bool readsPanels() const;
  bool readsLeft() const;
  void chooseDepth();
  int64_t chooseMostRows();
  bool keepsPanels() const;
  void chooseRows();
  /// How steps of registers go along the runs of a patch.
  struct Steps {
    PatchShape::Layout layout;
    int64_t words;
  };
  std::optional<Steps> stepsAlong(const PatchShape::Layout &layout) const;
  int64_t mostDepth() const;
  std::optional<Steps> stepsOfPatch() const;
  bool paysForPatch(const Steps &steps) const;
  double cyclesOfPatch() const;
  void choosePatch(const PatchShape::Layout &layout);
  void splitRows(int64_t count);
  void choosePanelsPerTile();
  void chooseFetches();
  void setRight();
  double cyclesOfTiles() const;
  double cyclesOfVectors() const;
};

bool Chooser::readsPanels() const {
  const auto &found = contraction.right.panels;
  return found && !hasParts() && found->width % lanes == 0 &&
         found->kPack == word.kPack &&
         contraction.right.memory == contraction.narrow();
}

/// A register takes rows at equal distances, each of consecutive words.
bool Chooser::readsLeft() const {
  const ContractionOperand &left = contraction.left;
  bool hasWholeSteps = left.depthRun && left.depthRun % stepDepths() == 0;
  return !hasParts() && (left.isRegular || hasWholeSteps) &&
         left.rowsAreRegular && left.memory == contraction.narrow() &&
         left.unitLoop == contraction.depth;
}

/// Two thirds of the first-level cache hold a panel of a block of the depth; of
/// parts, half of it holds the two that take turns. The left operand streams
/// through the rest.
int64_t Chooser::mostDepth() const {
  int64_t step = stepDepths();
  if (multipliesIntegers()) {
    // A block's copy of the rows stays in half of the second-level cache.
    int64_t bytes = target.model.l2Bytes / 2;
    return std::max(
        bytes / (mostIntegerRows * steps.parts * wordBytes / word.kPack),
        4 * step);
  }
  int64_t bytes = copiesPanels() ? target.model.l1Bytes / 4
                  : hasParts()   ? target.model.l1Bytes / 2
                                 : target.model.l1Bytes * 2 / 3;
  int64_t most = bytes / (2 * lanes * elementBytes()) / step * step;
  return std::max(most, (hasParts() ? 2 : 4) * step);
}

void Chooser::chooseDepth() {
  int64_t step = stepDepths(), most = mostDepth();
  if (!depth) {
    tiling.depth = most;
    return;
  }
  int64_t blocks = std::max<int64_t>(1, divideCeil(*depth, most));
  // A panel that no second block of rows reads need not stay in a cache.
  if (inPanels && rows && *rows <= TileBlock::rows)
    blocks = 1;
  int64_t part = divideCeil(std::max<int64_t>(*depth, 1), blocks);
  if (multipliesIntegers() && steps.scaledDepth < *depth)
    step = steps.scaledDepth;
  tiling.depth = int64_t(alignTo(part, step));
}

void Chooser::splitRows(int64_t count) {
  int64_t part = divideCeil(std::max<int64_t>(*rows, 1), count);
  tiling.rowsPerTile = int64_t(alignTo(part, TileBlock::rows));
}

/// As many rows as half of the second-level cache holds of the left operand:
/// each panel is read or copied once for them. If those are too few, or a copy
/// takes a few bytes from each of many pages, as many rows as fit there block
/// by block, with the sums of a group of panels.
int64_t Chooser::chooseMostRows() {
  if (!depth)
    return unknownRows;
  int64_t cache = target.model.l2Bytes;
  if (multipliesIntegers())
    return mostIntegerRows;
  if (hasParts())
    return transposesRight() ? 2 * mostPartRows : mostPartRows;
  int64_t depthBytes = std::max<int64_t>(*depth * elementBytes(), 1);
  int64_t fitting = cache / 2 / depthBytes;
  bool isCheap = inPanels || contraction.right.unitLoop == contraction.depth;
  bool hasGroups = isInt8() && columns && panels() >= enoughTiles * manyPanels;
  int64_t least = !isCheap    ? rows.value_or(unknownRows)
                  : hasGroups ? rowsOfByteStrip
                              : rowsOfStrip;
  if (fitting >= std::min(least, rows.value_or(least)))
    return fitting;
  steps.depthOutside = *depth > tiling.depth;
  int64_t group = inPanels ? panelsOfGroup : copiesOfGroup;
  int64_t rowBytes = tiling.depth * elementBytes() +
                     (steps.depthOutside ? group * 2 * lanes * wordBytes : 0);
  return cache / 2 / rowBytes;
}

/// Whether the caches hold all panels beside a tile's rows, of which there are
/// enough for all workers. A tile then has all panels: its rows are whole lines
/// of the result, and of what the epilogue reads.
bool Chooser::keepsPanels() const {
  if (!inPanels || !rows || !columns || !depth || batch != 1)
    return false;
  return *columns * *depth * elementBytes() <=
             target.model.l2Bytes / panelsOfCache &&
         *rows >= tilesEnough() * leastRows;
}

void Chooser::chooseRows() {
  int64_t most = std::max(chooseMostRows(), TileBlock::rows);
  if (!rows) {
    tiling.rowsPerTile =
        std::min(most / TileBlock::rows * TileBlock::rows, unknownRows);
    return;
  }
  splitRows(divideCeil(std::max<int64_t>(*rows, 1), most));
  if (!columns || !batch)
    return;
  int64_t least = inPanels ? leastRows : leastRowsOfCopy;
  while (*batch * strips() * panels() < tilesEnough() &&
         tiling.rowsPerTile > least)
    splitRows(2 * strips());
}

/// Equal steps, as few as registers allow, of whole words.
std::optional<Chooser::Steps>
Chooser::stepsAlong(const PatchShape::Layout &layout) const {
  int64_t run = layout.runOf(*contraction.windows);
  if (run % word.kPack != 0)
    return std::nullopt;
  int64_t words = run / word.kPack, count = divideCeil(words, TileBlock::words);
  while (words % count != 0)
    ++count;
  return Steps{layout, words / count};
}

/// Whether steps that leave a part of the registers empty cost less than copies
/// of whole windows. Those of one-dimensional images are a single run each.
bool Chooser::paysForPatch(const Steps &steps) const {
  bool isSignal = contraction.rows.size() < 3;
  if (steps.words == TileBlock::words || isSignal)
    return steps.words == TileBlock::words;
  double added = double(steps.layout.channels) / contraction.windows->run;
  double empty = added * TileBlock::words / steps.words - 1;
  double windowTaps = double(depth.value_or(0)) / contraction.windows->run;
  return empty <= mostEmpty && empty * columns.value_or(0) * depth.value_or(0) <
                                   windowTaps * cycles.copiedTap *
                                       target.rate(native::Multiply::TileBF16);
}

/// How a step of registers lies within the runs of a patch; none if there is no
/// patch. Windows of single points that follow each other are read in place.
std::optional<Chooser::Steps> Chooser::stepsOfPatch() const {
  const auto &windows = contraction.windows;
  if (!windows || !windows->axes || windows->group || readsLeft())
    return std::nullopt;
  std::optional<Steps> steps = stepsAlong({false, windows->run});
  if (hasParts()) {
    bool isWhole = steps && steps->words == TileBlock::words;
    if (!isWhole || !contraction.left.memory || !copiesPanels())
      return std::nullopt;
    return steps;
  }
  if (contraction.left.memory != contraction.narrow() || !inPanels)
    return std::nullopt;
  if (PatchShape::canJoinTaps(*windows)) {
    auto joined = stepsAlong({true, windows->run});
    if (joined && (!steps || joined->words > steps->words))
      steps = joined;
    // A panel whose depths have channels of zeros is copied as one block, and
    // points of an image vector by vector.
    int64_t channels = int64_t(alignTo(windows->run, word.kPack));
    if (!steps && channels <= stepDepths() && depth &&
        *depth / windows->run * channels <= mostDepth())
      steps = stepsAlong({true, channels});
  }
  return steps && paysForPatch(*steps) ? steps : std::nullopt;
}

/// Cycles of all tiles of a patch on one core: their products, the copies of
/// points, and panels that come from a cache.
double Chooser::cyclesOfPatch() const {
  double elements = double(*columns) * *depth;
  double filled = double(steps.words) / TileBlock::words;
  double products = elements * double(left.patch->numbers()) /
                    cycles.shareOfTiles /
                    target.rate(native::Multiply::TileBF16) / filled;
  double bytes = elements * elementBytes();
  double load = bytes > double(target.model.l2Bytes) / 2 ? target.model.l3Load
                                                         : target.model.l2Load;
  double blocks = double(blocksOfTile() * panels()) * cycles.block;
  double group =
      double(left.patch->elements()) * cycles.copiedPoint + cycles.tile;
  return double(strips()) *
         (products + bytes / load + blocks + double(groups()) * group);
}

/// Rows of windows of one image, and panels, with the fewest cycles. The
/// second-level cache holds their points beside a panel.
void Chooser::choosePatch(const PatchShape::Layout &layout) {
  int64_t points = contraction.windows->axes->rows.points;
  int64_t perRow = contraction.windows->axes->columns.points;
  bool isKnown = rows && columns && depth && batch;
  bool isSingle = rows == points * perRow;
  std::optional<double> lowest;
  TileBlocking best = blocking;
  for (int64_t part = points; part > 0; --part) {
    if (!PatchShape::cutsWell(points, part, isSingle))
      continue;
    left = {LeftAccess::Form::Patch, 0,
            PatchShape::of(*contraction.windows, part, layout)};
    tiling.rowsPerTile = part * perRow;
    if (part > 1 && left.patch->elements() * elementBytes() >
                        target.model.l2Bytes / patchOfCache)
      continue;
    for (int64_t shared = isKnown ? panels() : 1; shared > 0; --shared) {
      tiling.panelsPerTile = shared;
      double time = 0;
      if (isKnown)
        time = imbalance(strips() * groups(), mostWorkers) *
               (hasParts() ? cyclesOfParts() : cyclesOfPatch());
      if (lowest && time >= *lowest)
        continue;
      lowest = time;
      best = blocking;
    }
  }
  blocking = best;
}

/// As many panels as leave enough tiles, and make a tile worth its start.
void Chooser::choosePanelsPerTile() {
  tiling.panelsPerTile = 1;
  if (!columns)
    return;
  // An unknown number of rows counts as one strip: more rows only make more
  // tiles.
  int64_t others =
      std::max<int64_t>((rows ? strips() : 1) * batch.value_or(1), 1);
  bool isOneBlock = blocksOfTile() == 1;
  int64_t wanted = contraction.windows                     ? enoughWindowTiles
                   : left.isCopied() || steps.depthOutside ? tilesEnough()
                   : isOneBlock                            ? enoughFewRowTiles
                                                           : enoughPanelTiles;
  int64_t shared = panels() / int64_t(divideCeil(wanted, others));
  if (steps.depthOutside)
    shared = std::min(shared,
                      inPanels || hasParts() ? panelsOfGroup : copiesOfGroup);
  int64_t bytes = blockColumns() * elementBytes() * blocksOfTile() *
                  std::max<int64_t>(depth.value_or(tiling.depth), 1);
  int64_t least = divideCeil(leastTileBytes, bytes);
  tiling.panelsPerTile = std::clamp<int64_t>(std::max(shared, least), 1,
                                             std::max<int64_t>(panels(), 1));
}

/// The blocks of a tile use the same panel, so they share the work of fetching
/// the next one.
void Chooser::chooseFetches() {
  if (copiesPanels()) {
    int64_t lines = TileBlocking::linesOfRow(contraction, blockColumns());
    blocking.linesAhead =
        lines * int64_t(divideCeil(stepDepths(), blocksOfTile()));
  }
  if (!inPanels || (left.patch && left.patch->padsChannels()))
    return;
  int64_t lines = steps.words * tiling.vectors;
  bool isOneBlock = blocksOfTile() == 1;
  if (isOneBlock)
    blocking.bytesAhead =
        bytesOfStream * contraction.right.panels->width / blockColumns();
  blocking.linesAhead = int64_t(
      alignTo(divideCeil(lines, blocksOfTile()), uint64_t(tiling.vectors)));
}

void Chooser::choose() {
  inPanels = readsPanels();
  left.form = readsLeft() ? LeftAccess::Form::InPlace : LeftAccess::Form::Rows;
  bool isNarrow = columns && *columns <= lanes;
  // A block is as wide as a panel, or half as wide.
  bool isOdd = (inPanels || copiesPanels()) &&
               contraction.right.panels->width / lanes % 2;
  tiling.vectors = isNarrow || isOdd ? 1 : 2;
  std::optional<Steps> ofPatch = stepsOfPatch();
  if (ofPatch)
    steps.words = ofPatch->words;
  chooseDepth();
  // Panels of parts are filled ahead in this order (TileBlocksEmitter).
  steps.depthOutside = hasParts() && depth && *depth > tiling.depth;
  if (ofPatch) {
    choosePatch(ofPatch->layout);
    if (left.patch->padsChannels())
      tiling.depth = left.patch->paddedDepth(*depth);
  } else if (keepsPanels()) {
    splitRows(tilesEnough());
    tiling.panelsPerTile = panels();
  } else {
    chooseRows();
    choosePanelsPerTile();
  }
  chooseFetches();
  setRight();
}

void Chooser::setRight() {
  using Form = RightAccess::Form;
  RightAccess &right = blocking.layout.right;
  bool isTransposed = contraction.right.unitLoop == contraction.depth &&
                      !contraction.right.isWindow;
  bool padsChannels = left.patch && left.patch->padsChannels();
  right.form = inPanels && !padsChannels ? Form::Panels
               : isTransposed            ? Form::CopiedTransposed
                                         : Form::Copied;
  right.panelWidth = right.form == Form::Panels
                         ? contraction.right.panels->width
                         : blockColumns();
  right.element = contraction.element;
}

/// Sets given parameters, rounded to what fits.
TileBlocking Chooser::fit(const BlockingParameters &given) {
  if (!left.patch) {
    if (given.depth && depth) {
      tiling.depth =
          fitSize(*given.depth, blocking.layout.depthStep(*depth), *depth);
      steps.depthOutside =
          (steps.depthOutside || hasParts()) && *depth > tiling.depth;
    }
    fitRows(contraction, given, tiling);
  }
  if (given.panelsPerTile && columns)
    tiling.panelsPerTile = fitSize(*given.panelsPerTile, 1, panels());
  return blocking;
}

/// Cycles of all tiles on one core. Waits for caches beyond the second level
/// are left out: they are the same for all instructions.
double Chooser::cyclesOfTiles() const {
  auto multiply =
      isInt8() ? native::Multiply::TileInt8 : native::Multiply::TileBF16;
  double elements = double(*columns) * *depth;
  double products = elements * *rows / target.rate(multiply);
  double reading = elements * elementBytes() / target.model.l2Load;
  double copying =
      inPanels ? 0 : strips() * elements / word.kPack * cycles.copiedWord;
  double tiles = double(strips()) * groups();
  return *batch * (std::max(products, reading) + copying + tiles * cycles.tile);
}

/// The same for parts: each tile copies its part of both operands.
double Chooser::cyclesOfParts() const {
  double elements = double(*columns) * *depth;
  double numbers =
      left.patch ? double(strips()) * left.patch->numbers() : double(*rows);
  double products =
      elements * numbers * productsOfParts(steps.parts, rightParts()) /
      (target.rate(native::Multiply::TileBF16) * cycles.shareOfParts);
  // With one vector there are more loads for a product.
  if (tiling.vectors == 1)
    products *= 1.5;
  double rowElements = left.patch ? double(strips()) * left.patch->elements()
                                  : double(*rows) * *depth;
  double copy = steps.parts * cycles.copiedPart;
  double copies =
      strips() * elements * (transposesRight() ? cycles.transposedPart : copy);
  // Panels of a frozen weight are copied during products.
  if (copiesPanels())
    copies = std::max(copies * cycles.shareOfHiddenCopy, copies - products / 3);
  double blocks = divideCeil(int64_t(numbers), TileBlock::rows) * panels();
  return *batch * (products + copies + double(groups()) * rowElements * copy +
                   blocks * cycles.block + strips() * groups() * cycles.tile);
}

double Chooser::cyclesOfVectors() const {
  auto dot = isInt8() ? native::Multiply::DotInt8 : native::Multiply::DotBF16;
  double rate =
      std::max(target.rate(dot), target.rate(native::Multiply::FmaF32));
  double elements = double(*columns) * *depth;
  double reading = elements * elementBytes() / target.model.l2Load;
  bool dots = *rows <= rowsOfDots &&
              contraction.right.unitLoop == contraction.depth &&
              !contraction.right.isWindow;
  double copying =
      inPanels || dots ? 0 : elements / word.kPack * cycles.copiedWord;
  return *batch * (std::max(elements * *rows / rate, reading) + copying);
}

std::optional<std::string> Chooser::refusal() const {
  if (hasParts() && contraction.windows && !left.patch)
    return "its windows of floats have no copy in parts";
  if (!rows || !columns || !depth || !batch) {
    if (hasParts())
      return "parts of floats pay for some sizes only, and one is not known";
    return std::nullopt;
  }
  // Tile registers pay from the first row on: splitting or multiplying pairs
  // keeps vector code from reading as fast as the cache delivers.
  if (inPanels && !isInt8())
    return std::nullopt;
  double ofTiles = hasParts() ? cyclesOfParts() : cyclesOfTiles();
  double ofVectors = cyclesOfVectors();
  if (ofTiles < ofVectors)
    return std::nullopt;
  return llvm::formatv("tile registers would take about {0:f0} cycles, vector "
                       "registers {1:f0}",
                       ofTiles, ofVectors)
      .str();
}

/// Whether both operands of a sum in f32 have this type.
bool multiplies(const Contraction &contraction, Type type) {
  if (!contraction.element.isF32())
    return false;
  if (type.isF32())
    return !contraction.left.cast && !contraction.right.cast;
  return contraction.narrow() == type;
}

/// Parts need whole copies of both operands, or of windows that are a patch.
/// Panels are copied vector by vector.
int64_t partsOf(const Contraction &contraction,
                const native::TargetInfo &target) {
  MLIRContext *context = contraction.element.getContext();
  const auto &panels = contraction.right.panels;
  if (!target.isa().roundsToBF16() || contraction.right.isWindow ||
      (panels && (panels->width % lanes != 0 || panels->kPack != 1)))
    return 1;
  auto weight = QuantizedOperand::find(contraction);
  // One bf16 holds an integer, and a float of eight bits, but no table's.
  if (weight && weight->table)
    return 1;
  if (multiplies(contraction, Float32Type::get(context)))
    return 3;
  if (weight)
    return 1;
  return multiplies(contraction, Float16Type::get(context)) ? 2 : 1;
}

Words wordsOf(const Contraction &contraction,
              const native::TargetInfo &target) {
  const native::Isa &isa = target.isa();
  if (isa.has(native::Multiply::TileInt8) && contraction.multipliesInt8())
    return {4, 1};
  if (!isa.has(native::Multiply::TileBF16))
    return {};
  if (multiplies(contraction,
                 BFloat16Type::get(contraction.element.getContext())))
    return {2, 1};
  int64_t parts = partsOf(contraction, target);
  if (parts == 1)
    return {};
  auto weight = QuantizedOperand::find(contraction);
  if (!weight)
    return {2, parts};
  if (weight->depths == 0)
    return {};
  // A step of registers must not have two scales.
  constexpr int64_t stepDepths = 2 * TileBlock::words;
  int64_t group = weight->layout.group;
  if (group >= weight->depths)
    return {2, parts, int64_t(alignTo(weight->depths, stepDepths))};
  return group % stepDepths == 0 ? Words{2, parts, group} : Words();
}

} // namespace

std::optional<TileBlocking>
TileBlocking::choose(const Contraction &contraction,
                     const native::TargetInfo &target, std::string &why,
                     const BlockingParameters &given) {
  Words words = wordsOf(contraction, target);
  if (!words.kPack) {
    why = "the target has no tile registers for its operands";
    return std::nullopt;
  }
  if (contraction.isGrouped) {
    why = "groups of few rows would leave tile registers mostly empty";
    return std::nullopt;
  }
  Chooser chooser(contraction, target, words);
  chooser.choose();
  if (auto reason = chooser.refusal()) {
    why = *reason;
    return std::nullopt;
  }
  TileBlocking chosen = chooser.fit(given);
  if (words.parts > 1)
    chosen.cycles = chooser.cyclesOfParts();
  return chosen;
}

int64_t TileBlocking::linesOfRow(const Contraction &contraction,
                                 int64_t columns) {
  return divideCeil(columns * kernels::elementBytes(contraction.right.memory),
                    machine::lineBytes);
}

std::optional<Panels>
TileBlocking::choosePanels(const Contraction &contraction,
                           const native::TargetInfo &target) {
  Words words = wordsOf(contraction, target);
  auto columns = contraction.knownSize(contraction.column);
  if (!words.kPack || !columns)
    return std::nullopt;
  // Two registers of each operand make four products from four loads. With one
  // vector there are three loads for two products. Products of parts copy
  // panels of floats.
  bool hasParts = words.parts > 1;
  bool isWide = *columns > lanes || hasParts;
  Type narrow = contraction.narrow();
  Contraction packed = contraction;
  packed.right.panels =
      Panels{isWide ? 2 * lanes : lanes, hasParts ? 1 : words.kPack};
  packed.right.memory = narrow ? narrow : contraction.element;
  std::string why;
  if (!choose(packed, target, why))
    return std::nullopt;
  return packed.right.panels;
}

} // namespace kernels
} // namespace anabranch
