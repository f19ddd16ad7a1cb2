//===- GemmBlocking.h - how a product is cut up -----------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_CONTRACTION_GEMMBLOCKING_H
#define ANABRANCH_CODEGEN_CONTRACTION_GEMMBLOCKING_H

#include "codegen/contraction/BlockingParameters.h"
#include "codegen/contraction/Contraction.h"
#include "codegen/contraction/PatchShape.h"
#include "codegen/microkernel/WordProduct.h"
#include "codegen/target/Target.h"

#include <vector>

namespace anabranch {
namespace codegen {

/// How a contraction is cut up for a processor, and how its operands reach the
/// micro-kernel.
struct GemmBlocking {
  enum class Right {
    InPlace,        ///< columns are neighbours in memory, no copy
    Pack,           ///< copied to a panel, columns are neighbours
    PackTransposed, ///< copied to a panel, depths are neighbours
    Prepacked,      ///< an argument in panels
    RowDots         ///< few rows: dot products along the depth, no copy
  };

  int64_t lanes;       ///< of a vector of accumulators
  int64_t rows;        ///< of a block of accumulators in registers
  int64_t vectors;     ///< of a block, side by side
  int64_t depth;       ///< of a panel
  int64_t rowsPerTile; ///< a multiple of `rows`
  bool packLeft;
  /// The copy that AMX registers read windows from: a tile is rows of windows
  /// of one image.
  std::optional<PatchShape> patch;
  /// Whether a packed left operand has the rows of a block next to each other.
  bool interleavesLeft = false;
  /// Panels of a tile: several where the left operand is packed, so that all of
  /// them read one copy.
  int64_t panelsPerTile = 1;
  Right right;
  /// Whether the copy of the right operand is made of panels of pairs.
  bool splitsPanels = false;
  /// Whether the panels alone are tiles enough, so that each is packed once.
  bool packsOnce = false;
  /// The K-pack (VNNI) factor, the depths of a word (WordProduct.h): four of
  /// signed bytes, two of bf16, else one.
  int64_t kPack = 1;
  /// How pairs of bf16 are multiplied, if words are that.
  WordProduct::Pairs pairs = WordProduct::Pairs::None;
  /// How bytes are multiplied.
  Int8Dot int8;
  /// Whether blocks are made of AMX registers, whose tiles may have the blocks
  /// of the depth as their outermost loop (AmxBlocking.h).
  bool usesAmx = false;
  bool depthOutside = false;
  /// Columns from one word of the right operand to the next, where it lies in
  /// panels: a block may be narrower.
  int64_t panelWidth = 0;
  /// How many bytes ahead of its use the right operand is fetched, where
  /// products of several rows keep a thread from running ahead to the loads.
  int64_t bytesAhead = 0;
  /// Lines that each step of a block of AMX registers fetches; where no bytes
  /// ahead are given, of the next panel.
  int64_t linesAhead = 0;
  /// What the micro-kernel reads from the right operand.
  mlir::Type rightElement;

  int64_t columns() const { return lanes * vectors; }
  /// Rows of the tile's blocks in AMX registers, a multiple of a block's.
  int64_t blockedRows() const {
    return patch ? int64_t(llvm::alignTo(patch->numbers(), rows)) : rowsPerTile;
  }
  bool multipliesInt8() const { return kPack == 4; }
  WordProduct wordProduct() const;
  /// Whether sums start at their row's zero-point compensation.
  bool needsCompensation() const {
    return multipliesInt8() && !usesAmx && int8.needsCompensation();
  }
  bool copiesRight() const {
    return right == Right::Pack || right == Right::PackTransposed;
  }
  /// Columns whose dot products are computed at once.
  int64_t dotColumns() const;

  /// What is `given` is not chosen.
  static GemmBlocking choose(const Contraction &contraction,
                             const TargetInfo &target,
                             const BlockingParameters &given = {});

private:
  static GemmBlocking chooseVectors(const Contraction &contraction,
                                    const TargetInfo &target,
                                    const BlockingParameters &given);
  void setTile(const Contraction &contraction, const BlockingParameters &given);
};

/// A shape of a block of accumulators in vector registers, and what a
/// multiply-add costs in it, measured, relative to the best.
struct BlockShape {
  int64_t rows, vectors;
  double cost;
};

/// The shapes that fit a product without AMX, the best first. Their costs
/// include the rows and columns that blocks compute for nothing.
std::vector<BlockShape> blockShapes(const Contraction &contraction,
                                    const TargetInfo &target);

/// Which panels constants are packed into.
enum class PanelsFor {
  Rows,   ///< those that suit the product's number of rows best
  AnyRows ///< the same for all numbers of rows, unless AMX registers read them
};

/// The panels that a constant right operand is best packed into, or none if
/// the operator has no kernel that reads panels.
std::optional<Panels> choosePanels(const Contraction &contraction,
                                   const TargetInfo &target,
                                   PanelsFor purpose = PanelsFor::Rows);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_CONTRACTION_GEMMBLOCKING_H
