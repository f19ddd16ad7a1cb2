//===- GemmBlocking.h - how a product is cut up -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_CONTRACTION_GEMMBLOCKING_H
#define ANABRANCH_KERNELS_CONTRACTION_GEMMBLOCKING_H

#include "kernels/contraction/BlockingParameters.h"
#include "kernels/contraction/Contraction.h"
#include "kernels/contraction/PatchShape.h"
#include "kernels/microkernel/WordProduct.h"
#include "native/target/Target.h"
#include "llvm/Support/MathExtras.h"

#include <vector>

namespace anabranch {
namespace kernels {

/// How a contraction is cut up for a processor, and how its operands get to the
/// micro-kernel.
struct GemmBlocking {
  enum class Right {
    InPlace,        ///< columns are neighbours in memory, no copy
    Pack,           ///< copied to a panel, columns are neighbours
    PackTransposed, ///< copied to a panel, depths are neighbours
    Prepacked,      ///< an argument in panels
    RowDots,        ///< few rows: dot products along the depth, no copy
    RowSums         ///< few rows: sums of rows of the operand, no copy
  };

  int64_t lanes;       ///< of a vector of accumulators
  int64_t rows;        ///< of a block of accumulators in registers
  int64_t vectors;     ///< of a block, side by side
  int64_t depth;       ///< of a panel
  int64_t rowsPerTile; ///< a multiple of `rows`
  bool packLeft;
  /// If blocks read windows in a copy of a part of the image: that copy. A tile
  /// is then rows of windows of one image.
  std::optional<PatchShape> patch;
  /// Whether a packed left operand has the rows of a block side by side.
  bool interleavesLeft = false;
  /// Panels of a tile. There are several if the left operand is packed, so that
  /// all of them read one copy.
  int64_t panelsPerTile = 1;
  Right right;
  /// Whether the copy of the right operand is made from panels of pairs.
  bool splitsPanels = false;
  /// Whether the panels alone make enough tiles, so that each is packed once.
  bool packsOnce = false;
  /// The K-pack (VNNI) factor: the depths of a word (WordProduct.h). Four for
  /// signed bytes, two for bf16, else one.
  int64_t kPack = 1;
  /// How pairs of bf16 are multiplied, if words are pairs.
  WordProduct::Pairs pairs = WordProduct::Pairs::None;
  /// How signed bytes are multiplied, if words are four of them.
  Int8Dot int8;
  /// Whether blocks are made of AMX registers. The blocks of the depth may then
  /// be the outermost loop of a tile (AmxBlocking.h).
  bool usesAmx = false;
  bool depthOutside = false;
  /// Words of the depth in a step of AMX registers.
  int64_t stepWords = 0;
  /// The parts that AMX registers multiply instead of floats (FloatParts.h):
  /// two of f16, three of f32. Both operands are then copied. One: no parts.
  int64_t parts = 1;
  /// If the parts multiply the integers of a weight of few bits: the depths
  /// whose sums are scaled together. Otherwise zero.
  int64_t scaledDepth = 0;
  /// If the right operand is in panels: columns from one word to the next. A
  /// block may be narrower.
  int64_t panelWidth = 0;
  /// How many bytes ahead of its use the right operand is fetched. It is set if
  /// products of several rows keep a core from reaching the loads early.
  int64_t bytesAhead = 0;
  /// Lines that each step of a block of AMX registers fetches. If `bytesAhead`
  /// is zero, they are lines of the next panel.
  int64_t linesAhead = 0;
  /// The type that the micro-kernel reads from the right operand.
  mlir::Type rightElement;

  int64_t columns() const { return lanes * vectors; }
  /// Sums of a block in registers.
  int64_t blockElements() const { return rows * columns(); }
  /// Rows of the tile's blocks in AMX registers, a multiple of a block's rows.
  int64_t blockedRows() const {
    return patch ? int64_t(llvm::alignTo(patch->numbers(), rows)) : rowsPerTile;
  }
  bool multipliesInt8() const { return kPack == 4; }
  bool hasParts() const { return parts > 1; }
  bool multipliesIntegers() const { return scaledDepth > 0; }
  int64_t rightParts() const { return multipliesIntegers() ? 1 : parts; }
  /// How often the sums of a block of the depth are scaled.
  int64_t scalings() const {
    return multipliesIntegers() ? int64_t(llvm::divideCeil(depth, scaledDepth))
                                : 0;
  }
  /// The number that the depth of a block must be a multiple of.
  int64_t depthStep(int64_t depthCount) const {
    return multipliesIntegers() && scaledDepth < depthCount ? scaledDepth
                                                            : lanes * kPack;
  }
  /// Depths of a step of AMX registers: the elements in a row of a register of
  /// the left operand.
  int64_t stepDepths() const { return stepWords * kPack; }
  WordProduct wordProduct() const;
  /// Whether the sums of a row start at its zero-point compensation.
  bool needsCompensation() const {
    return multipliesInt8() && !usesAmx && int8.needsCompensation();
  }
  /// Whether sums of blocks are in registers. They are not where few rows read
  /// the right operand in the order of memory.
  bool hasBlocks() const {
    return right != Right::RowDots && right != Right::RowSums;
  }
  bool copiesRight() const {
    return right == Right::Pack || right == Right::PackTransposed;
  }
  /// Columns whose dot products are computed at once.
  int64_t dotColumns() const;

  /// Chooses a blocking. Parameters in `given` are taken, not chosen.
  static GemmBlocking choose(const Contraction &contraction,
                             const native::TargetInfo &target,
                             const BlockingParameters &given = {});

private:
  static GemmBlocking chooseVectors(const Contraction &contraction,
                                    const native::TargetInfo &target,
                                    const BlockingParameters &given);
  void choosePatch(const Contraction &contraction,
                   const native::TargetInfo &target);
  void setTile(const Contraction &contraction, const BlockingParameters &given);
};

/// The shape of a block of accumulators in vector registers, and the measured
/// cost of a multiply-add in it, relative to the best shape.
struct BlockShape {
  int64_t rows, vectors;
  double cost;
};

/// The shapes that fit a product without AMX, the best first. Their costs
/// include the rows and columns that blocks compute in vain.
std::vector<BlockShape> blockShapes(const Contraction &contraction,
                                    const native::TargetInfo &target);

/// For which products constants are packed into panels.
enum class PanelsFor {
  Rows,   ///< the best for the product's own number of rows
  AnyRows ///< one for all numbers of rows, unless AMX reads them
};

/// The best panels to pack a constant right operand into. None if the operator
/// has no kernel that reads panels.
std::optional<Panels> choosePanels(const Contraction &contraction,
                                   const native::TargetInfo &target,
                                   PanelsFor purpose = PanelsFor::Rows);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_CONTRACTION_GEMMBLOCKING_H
