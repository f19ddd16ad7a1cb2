//===- ProductLayout.h - how a product is cut up and read -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The parts from which the plans of a product are composed. The readers of
// operands, the epilogue and the footprint know a plan only by these values.

#ifndef ANABRANCH_KERNELS_CONTRACTION_PRODUCTLAYOUT_H
#define ANABRANCH_KERNELS_CONTRACTION_PRODUCTLAYOUT_H

#include "kernels/contraction/PatchShape.h"
#include "kernels/microkernel/MatrixBlock.h"
#include "kernels/microkernel/WordProduct.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>
#include <optional>

namespace anabranch {
namespace kernels {

/// How a product is cut into tiles, and these into blocks.
struct Tiling {
  int64_t lanes;       ///< of a vector of accumulators
  int64_t rows;        ///< of a block of accumulators
  int64_t vectors;     ///< of a block, side by side
  int64_t depth;       ///< of a block
  int64_t rowsPerTile; ///< a multiple of `rows`
  /// There are several if a copy of the left operand is made, so that all of
  /// them read it.
  int64_t panelsPerTile = 1;

  int64_t columns() const { return lanes * vectors; }
  int64_t blockElements() const { return rows * columns(); }
};

/// The elements in a word of an operand.
struct Word {
  /// The K-pack (VNNI) factor: four of bytes, two of bf16, else one.
  int64_t kPack = 1;
  /// How vector registers multiply words.
  WordProduct product = {};

  bool holdsBytes() const { return kPack == 4; }
  /// The K-pack factor of panels: elements of a column that are neighbours.
  int64_t panelPack() const {
    return product.isMatrix ? kPack * MatrixBlock::words : kPack;
  }
  /// Whether the sums of a row start at its zero-point compensation.
  bool needsCompensation() const {
    return product.int8 && product.int8->needsCompensation();
  }
};

/// How blocks read the left operand.
struct LeftAccess {
  enum class Form {
    InPlace,
    Rows,        ///< a copy: [row][word]
    Interleaved, ///< a copy that has the rows of a block side by side
    Patch        ///< windows in a copy of a part of the image
  };
  Form form = Form::InPlace;
  /// Of the form Rows: the elements from one row to the next, if blocks read
  /// all rows from one address. Else zero: a row has whole vectors of words.
  int64_t rowElements = 0;
  /// Of the form Patch: the copy. A tile is then rows of windows of one image.
  std::optional<PatchShape> patch = std::nullopt;
  /// Of the form InPlace: so many words of a row are neighbours, and its runs
  /// are at equal distances. 0: all words are at equal distances.
  int64_t run = 0;

  bool isCopied() const { return form != Form::InPlace; }
  bool isInterleaved() const { return form == Form::Interleaved; }
};

/// How blocks read the right operand.
struct RightAccess {
  enum class Form {
    InPlace,          ///< columns are neighbours in memory
    Panels,           ///< an argument in panels
    Codes,            ///< floats of eight bits in panels (QuantizedWeight.h),
                      ///< which a tile of several blocks copies as pairs
    Copied,           ///< a copy of columns that are neighbours
    CopiedTransposed, ///< a copy of depths that are neighbours
    CopiedSplit       ///< a copy of panels of pairs, without pairs
  };
  Form form = Form::InPlace;
  /// Columns from one word of a panel to the next. A block may be narrower.
  int64_t panelWidth = 0;
  /// The type that the micro-kernel reads.
  mlir::Type element = {};

  bool isCopied() const { return form != Form::InPlace && !isInPanels(); }
  /// Whether blocks read an argument that is in panels.
  bool isInPanels() const {
    return form == Form::Panels || form == Form::Codes;
  }
};

/// How tile registers go along the depth (TileBlock.h). Without words, blocks
/// are in vector registers.
struct RegisterSteps {
  int64_t words = 0; ///< of the depth in a step
  /// The parts of a float that are multiplied instead of it (FloatParts.h): two
  /// of f16, three of f32. Both operands are then copied. One: no parts.
  int64_t parts = 1;
  /// If the parts multiply the integers of a weight of few bits: the depths
  /// whose sums are scaled together. Otherwise zero.
  int64_t scaledDepth = 0;
  /// Whether blocks of the depth are the outermost loop of a tile. Then only
  /// one block of a left operand is in use, if that exceeds the second-level
  /// cache.
  bool depthOutside = false;

  bool hasParts() const { return parts > 1; }
  bool multipliesIntegers() const { return scaledDepth > 0; }
  int64_t rightParts() const { return multipliesIntegers() ? 1 : parts; }
};

struct ProductLayout {
  Tiling tiling;
  Word word;
  LeftAccess left;
  RightAccess right;
  RegisterSteps steps = {};

  bool usesTileRegisters() const { return steps.words > 0; }
  /// Depths of a step of tile registers: the elements in a row of a register of
  /// the left operand.
  int64_t stepDepths() const { return steps.words * word.kPack; }
  /// Rows of the tile's blocks in tile registers, a multiple of a block's rows.
  int64_t blockedRows() const {
    return left.patch
               ? int64_t(llvm::alignTo(left.patch->numbers(), tiling.rows))
               : tiling.rowsPerTile;
  }
  /// How often the sums of a block of the depth are scaled.
  int64_t scalings() const {
    return steps.multipliesIntegers()
               ? int64_t(llvm::divideCeil(tiling.depth, steps.scaledDepth))
               : 0;
  }
  /// The number that the depth of a block must be a multiple of.
  int64_t depthStep(int64_t depthCount) const {
    if (steps.multipliesIntegers() && steps.scaledDepth < depthCount)
      return steps.scaledDepth;
    return std::lcm(tiling.lanes * word.kPack,
                    std::max<int64_t>(left.run, 1) * word.kPack);
  }
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_CONTRACTION_PRODUCTLAYOUT_H
