//===- QuantizedBlocking.cpp - how a quantised product is cut up ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/quantized/QuantizedBlocking.h"

#include "ir/Sizes.h"

#include <algorithm>

using namespace mlir;

namespace anabranch {
namespace kernels {
namespace {

using ir::QuantizedWeight;

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool readsBytes(const QuantizedOperand &weight) {
  return weight.layout.left != QuantizedWeight::Left::Exact;
}

bool hasOneByte(const QuantizedOperand &weight,
                const native::TargetInfo &target) {
  return target.dotsMixedBytes() && readsBytes(weight);
}

bool hasFewRows(const Contraction &contraction) {
  auto rows = contraction.knownSize(contraction.rows);
  return rows && *rows <= mostQuantizedRows;
}

/// As many digits as the left operand's type has precision, or as the weight's
/// mark allows. Widened bytes cost as much as 16 bits.
DigitFormat chooseDigits(const Contraction &contraction,
                         const QuantizedOperand &weight,
                         const native::TargetInfo &target) {
  if (hasOneByte(weight, target))
    return DigitFormat{1, 8, 1, 127};
  bool isNarrow = contraction.left.cast || readsBytes(weight);
  if (target.dotsMixedBytes())
    return isNarrow ? DigitFormat{2, 8, 1, 32630}
                    : DigitFormat{3, 8, 1, 8355000};
  return isNarrow ? DigitFormat{1, 16, 2, 32760}
                  : DigitFormat{2, 12, 2, 8386000};
}

/// Depths that share a scale: few enough that 32-bit sums hold the products of
/// two bytes by two, and all in one group of the weight.
int64_t chooseDepth(const QuantizedOperand &weight) {
  int64_t depth = 256;
  if (weight.layout.group == weight.depths)
    return depth;
  while (weight.layout.group % depth != 0)
    depth /= 2;
  return depth;
}

/// Whether matrix instructions multiply the digits. A digit alone has no other
/// one to share them with, so dot products multiply bytes of one integer by it.
bool multipliesMatrices(const QuantizedBlocking &blocking,
                        const QuantizedWeight &layout, int64_t rows,
                        const native::TargetInfo &target) {
  if (layout.bits == 4)
    return layout.pairsColumns();
  return rows * blocking.digits.count > 1 && wantsPairsOfColumns(target);
}

/// The sums of a block in floats that registers hold beside those of each
/// digit. A block with more moves them to memory and back between two groups
/// of depths.
int64_t sumsInRegisters(const QuantizedBlocking &blocking,
                        const native::TargetInfo &target) {
  int64_t digits = blocking.digits.count;
  if (blocking.matrices)
    return 16 / digits;
  int64_t registers = target.isa().vectorRegisters();
  int64_t besideOperands = registers > 16 ? 24 : 10;
  return std::min(besideOperands / digits, registers / (digits + 1));
}

/// Equal blocks of rows, with as many vectors side by side as registers hold.
/// If there is one digit, a vector of the weight is used by more rows. Matrices
/// need registers for their parts, and sums that wait for no other ones.
void chooseBlock(QuantizedBlocking &blocking, const QuantizedWeight &layout,
                 int64_t rows, const native::TargetInfo &target) {
  bool hasManyRegisters = target.isa().vectorRegisters() > 16;
  int64_t most = sumsInRegisters(blocking, target);
  int64_t mostRows = hasManyRegisters ? 8 : 4;
  if (blocking.hasOwnDigits)
    mostRows = most / 2;
  int64_t fewestVectors = layout.pairsColumns()
                              ? QuantizedWeight::groupColumns / blocking.lanes
                              : 1;
  int64_t blocks = ceilDiv(rows, std::min(most / fewestVectors, mostRows));
  blocking.rows = ceilDiv(rows, blocks);
  blocking.vectors = blocking.matrices ? 8 : 4;
  while (blocking.vectors > fewestVectors &&
         blocking.rows * blocking.vectors > most)
    blocking.vectors /= 2;
}

constexpr int64_t registerRows = 16;

/// Tile registers multiply the digits of several rows at once, if each block
/// has equally many depths for a register.
std::optional<std::string> refuseTiles(const QuantizedBlocking &blocking,
                                       const QuantizedOperand &weight,
                                       int64_t rows,
                                       const native::TargetInfo &target) {
  constexpr int64_t rowsToGain = 3;
  if (!target.isa().has(native::Multiply::TileInt8) || !blocking.dots)
    return "the target has no tile registers for digits";
  if (rows < rowsToGain)
    return "it has " + std::to_string(rows) +
           " rows; tile registers gain from " + std::to_string(rowsToGain) +
           " on";
  if (QuantizedWeight::paddedDepths(weight.depths) % blocking.tileDepths())
    return "its groups of depths do not fill tile registers";
  return std::nullopt;
}

void chooseTileBlocks(QuantizedBlocking &blocking, int64_t rows) {
  blocking.usesTiles = true;
  int64_t most = registerRows / blocking.digits.count;
  blocking.rows = ceilDiv(rows, ceilDiv(rows, most));
  blocking.vectors = QuantizedWeight::panelColumns / blocking.lanes;
}

constexpr int64_t enoughTiles = 16;

/// Each worker computes the digits of all rows again. So a tile has enough
/// columns that this costs little, unless workers would be idle.
int64_t choosePanelsPerTile(int64_t panels) {
  constexpr int64_t mostPanels = 16;
  return std::clamp<int64_t>(panels / enoughTiles, 1, mostPanels);
}

/// Blocks of rows whose digits a part of the second cache holds.
int64_t mostBlocksPerTile(const QuantizedBlocking &blocking,
                          const QuantizedOperand &weight,
                          const native::TargetInfo &target) {
  constexpr int64_t mostRows = 144, part = 3;
  int64_t fit = target.model.l2Bytes / part /
                QuantizedWeight::paddedDepths(weight.depths);
  return std::max<int64_t>(std::min(fit, mostRows) / blocking.rows, 1);
}

/// A tile that computes the digits of its rows has many columns: digits cost
/// about as much as a panel. But workers must not be idle: a product of few
/// columns is cut into more strips of rows.
void chooseStrips(QuantizedBlocking &blocking, const QuantizedOperand &weight,
                  int64_t rows, const native::TargetInfo &target) {
  constexpr int64_t fewTiles = 4;
  int64_t panels = QuantizedWeight::panels(weight.columns);
  int64_t blocks = ceilDiv(rows, blocking.rows);
  int64_t strips = ceilDiv(blocks, mostBlocksPerTile(blocking, weight, target));
  auto groupsOf = [&](int64_t leastPanels) {
    return std::clamp<int64_t>(panels / leastPanels, 1,
                               ceilDiv(enoughTiles, strips));
  };
  int64_t groups = groupsOf(16);
  if (strips * groups < fewTiles)
    groups = groupsOf(8);
  if (strips * groups < fewTiles)
    strips = std::min(blocks, ceilDiv(fewTiles, groups));
  blocking.layout.tiling.rowsPerTile = ceilDiv(blocks, strips) * blocking.rows;
  blocking.layout.tiling.panelsPerTile = ceilDiv(panels, groups);
}

} // namespace

std::optional<QuantizedBlocking> QuantizedBlocking::choose(
    const Contraction &contraction, const QuantizedOperand &weight,
    const native::TargetInfo &target, Unit unit, std::string &why) {
  std::optional<int64_t> known = contraction.knownSize(contraction.rows);
  QuantizedBlocking blocking;
  blocking.lanes = target.lanes(32);
  blocking.dots = target.dotsMixedBytes();
  blocking.digits = chooseDigits(contraction, weight, target);
  blocking.depth = chooseDepth(weight);
  blocking.hasOwnDigits = !hasFewRows(contraction);
  constexpr int64_t usualRows = 512;
  int64_t rows = std::max<int64_t>(known.value_or(usualRows), 1);
  blocking.matrices = unit == Unit::Vectors &&
                      multipliesMatrices(blocking, weight.layout, rows, target);
  chooseBlock(blocking, weight.layout, rows, target);
  if (unit == Unit::Tiles) {
    if (auto reason = refuseTiles(blocking, weight, rows, target)) {
      why = *reason;
      return std::nullopt;
    }
    chooseTileBlocks(blocking, rows);
  }
  Tiling &tiling = blocking.layout.tiling;
  tiling.lanes = blocking.lanes;
  tiling.rows = blocking.rows;
  tiling.vectors = QuantizedWeight::panelColumns / blocking.lanes;
  tiling.depth = QuantizedWeight::paddedDepths(weight.depths);
  if (blocking.hasOwnDigits) {
    chooseStrips(blocking, weight, rows, target);
  } else {
    tiling.rowsPerTile = rows;
    tiling.panelsPerTile =
        choosePanelsPerTile(QuantizedWeight::panels(weight.columns));
  }
  blocking.layout.right = {RightAccess::Form::Panels,
                           QuantizedWeight::panelColumns, contraction.element};
  return blocking;
}

/// Without an instruction for bytes, one multiplies pairs of 16 bits, of which
/// a register has twice as many as floats.
double QuantizedBlocking::rate(const native::TargetInfo &target) const {
  double fma = target.rate(native::Multiply::FmaF32);
  if (usesTiles)
    return target.rate(native::Multiply::TileInt8);
  if (matrices)
    return 2 * target.rate(native::Multiply::DotInt8);
  return dots ? std::max(target.rate(native::Multiply::DotInt8), fma) : 2 * fma;
}

/// Cycles to make the digits of rows: each tile makes those of its own rows, or
/// all share them.
double
QuantizedBlocking::cyclesOfDigits(double rows, const QuantizedOperand &weight,
                                  const native::TargetInfo &target) const {
  double panels = double(QuantizedWeight::panels(weight.columns));
  double times =
      hasOwnDigits ? panels / double(layout.tiling.panelsPerTile) : 1;
  return std::max(times, 1.0) * rows * double(weight.depths) *
         double(digits.count) * target.model.cycles.madeDigit;
}

double QuantizedBlocking::cycles(const Contraction &contraction,
                                 const QuantizedOperand &weight,
                                 const native::TargetInfo &target) const {
  const machine::CpuModel &cpu = target.model;
  int64_t count = std::max<int64_t>(
      contraction.knownSize(contraction.rows).value_or(ir::typicalSize), 1);
  auto blocks = double(ceilDiv(count, rows));
  // A block of tile registers takes as long with fewer rows.
  double multiplied = usesTiles ? blocks * double(registerRows)
                                : blocks * double(rows * digits.count);
  double panels = double(QuantizedWeight::panels(weight.columns));
  // Columns that only fill up the last panel do not count: the limits of rows
  // are those of whole panels.
  double columns = double(weight.columns);
  double depths = double(QuantizedWeight::paddedDepths(weight.depths));
  double products = multiplied * columns * depths / rate(target);
  double bytes = columns * depths * double(weight.layout.bits) / 8;
  double reading =
      bytes / (bytes > double(cpu.l2Bytes) ? cpu.l3Load : cpu.l2Load);
  // The sums of some depths are scaled, a vector at a time.
  double scaled = blocks * double(rows * digits.count) * columns /
                  double(lanes) * depths / double(depth);
  double tiles = double(ceilDiv(count, layout.tiling.rowsPerTile)) * panels /
                 double(layout.tiling.panelsPerTile);
  return std::max(products, reading) + scaled * cpu.cycles.scaledSum +
         cyclesOfDigits(double(count), weight, target) +
         tiles * cpu.cycles.tile / (usesTiles ? 1 : 4);
}

bool hasQuantizedRows(const Contraction &contraction,
                      const QuantizedOperand &weight,
                      const native::TargetInfo &target) {
  return hasFewRows(contraction) || hasOneByte(weight, target);
}

bool wantsQuantizedWeight(const Contraction &contraction,
                          const native::TargetInfo &target) {
  return contraction.element.isF32() && contraction.batch.empty();
}

bool wantsPairsOfColumns(const native::TargetInfo &target) {
  using Product = native::Isa::MatrixProduct;
  return target.lanes(32) == MatrixBlock::lanes && target.dotsMixedBytes() &&
         target.isa().hasMatrices(Product::MixedInt8);
}

} // namespace kernels
} // namespace anabranch
