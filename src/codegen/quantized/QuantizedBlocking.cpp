//===- QuantizedBlocking.cpp - how a quantised product is cut up ----------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/quantized/QuantizedBlocking.h"

#include <algorithm>

using namespace mlir;

namespace anabranch {
namespace codegen {
namespace {

using ir::QuantizedWeight;

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// As many digits as the left operand's type has precision.
DigitFormat chooseDigits(const Contraction &contraction, bool dots) {
  bool isNarrow = contraction.left.cast != nullptr;
  if (dots)
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

/// Equal blocks of rows, with as many vectors side by side as registers hold.
void chooseBlock(QuantizedBlocking &blocking, int64_t rows,
                 const TargetInfo &target) {
  int64_t most = (target.avx512 ? 24 : 10) / blocking.digits.count;
  int64_t blocks =
      ceilDiv(rows, std::min<int64_t>(most, target.avx512 ? 8 : 4));
  blocking.rows = ceilDiv(rows, blocks);
  blocking.vectors = 4;
  while (blocking.vectors > 1 && blocking.rows * blocking.vectors > most)
    blocking.vectors /= 2;
}

/// AMX multiplies the digits of several rows at once, if each block has equally
/// many depths for a register.
void chooseAmx(QuantizedBlocking &blocking, const QuantizedOperand &weight,
               int64_t rows, const TargetInfo &target) {
  constexpr int64_t rowsToGain = 3, registerRows = 16;
  blocking.usesAmx =
      target.amxInt8 && blocking.dots && rows >= rowsToGain &&
      QuantizedWeight::paddedDepths(weight.depths) % blocking.amxDepths() == 0;
  if (!blocking.usesAmx)
    return;
  int64_t most = registerRows / blocking.digits.count;
  blocking.rows = ceilDiv(rows, ceilDiv(rows, most));
  blocking.vectors = QuantizedWeight::panelColumns / blocking.lanes;
}

/// Each tile computes the digits of all rows again. So it has enough columns
/// that this costs little, unless workers would be idle.
int64_t choosePanelsPerTile(int64_t panels) {
  constexpr int64_t enoughTiles = 16, mostPanels = 16;
  return std::clamp<int64_t>(panels / enoughTiles, 1, mostPanels);
}

} // namespace

QuantizedBlocking QuantizedBlocking::choose(const Contraction &contraction,
                                            const QuantizedOperand &weight,
                                            const TargetInfo &target) {
  int64_t rows = *contraction.knownSize(contraction.rows);
  QuantizedBlocking blocking;
  blocking.lanes = target.lanes(32);
  blocking.dots = target.has(Multiply::DotInt8);
  blocking.digits = chooseDigits(contraction, blocking.dots);
  blocking.depth = chooseDepth(weight);
  chooseBlock(blocking, std::max<int64_t>(rows, 1), target);
  chooseAmx(blocking, weight, rows, target);
  GemmBlocking &gemm = blocking.gemm;
  gemm.lanes = blocking.lanes;
  gemm.rows = blocking.rows;
  gemm.vectors = QuantizedWeight::panelColumns / blocking.lanes;
  gemm.depth = QuantizedWeight::paddedDepths(weight.depths);
  gemm.rowsPerTile = std::max<int64_t>(rows, 1);
  gemm.packLeft = false;
  gemm.panelsPerTile =
      choosePanelsPerTile(QuantizedWeight::panels(weight.columns));
  gemm.right = GemmBlocking::Right::Prepacked;
  gemm.panelWidth = QuantizedWeight::panelColumns;
  gemm.rightElement = contraction.element;
  return blocking;
}

bool hasQuantizedRows(const Contraction &contraction) {
  auto rows = contraction.knownSize(contraction.rows);
  return rows && *rows <= mostQuantizedRows;
}

bool wantsQuantizedWeight(const Contraction &contraction,
                          const TargetInfo &target) {
  return target.avx2 && target.fma && contraction.element.isF32() &&
         contraction.batch.empty();
}

} // namespace codegen
} // namespace anabranch
