//===- AmxBlocking.h - how a product is cut up for AMX ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Products in AMX registers: whether they pay, and how much of which operand
// stays in which cache. The registers multiply int8 and bf16. Floats of f16 and
// f32 are copied as parts of bf16 (FloatParts.h). The integers of a weight of
// few bits are bf16 numbers, whose sums are scaled (GroupSums.h).

#ifndef ANABRANCH_KERNELS_CONTRACTION_AMXBLOCKING_H
#define ANABRANCH_KERNELS_CONTRACTION_AMXBLOCKING_H

#include "kernels/contraction/Contraction.h"
#include "kernels/contraction/PatchShape.h"
#include "kernels/microkernel/AmxBlock.h"
#include "native/target/Target.h"

namespace anabranch {
namespace kernels {

struct AmxBlocking {
  int64_t kPack;     ///< four of int8, two of bf16
  int64_t parts = 1; ///< of f16 two, of f32 three
  /// If the right operand is a weight of few bits: the depths whose sums are
  /// scaled together. Otherwise zero.
  int64_t scaledDepth = 0;
  int64_t vectors; ///< of a block of 16 columns each: 1 or 2
  /// Of the depth in a step: the registers' words, or fewer if a patch's runs
  /// do not fill them.
  int64_t stepWords = AmxBlock::words;
  bool readsPanels; ///< the right operand is in panels
  bool packLeft;
  /// If the left operand is windows: the copy that it is read from.
  std::optional<PatchShape> patch;
  int64_t depth;       ///< of a block: its panel stays in the first-level cache
  int64_t rowsPerTile; ///< a multiple of the rows of a block
  int64_t panelsPerTile;
  /// Whether blocks of the depth are the outermost loop of a tile. Then only
  /// one block of a left operand is in use, if that exceeds the second-level
  /// cache.
  bool depthOutside = false;
  /// Lines of the right operand that a step of a block fetches ahead, and how
  /// many bytes ahead. Zero bytes: from the next panel.
  int64_t linesAhead = 0, bytesAhead = 0;

  /// Measured of products of parts: cycles to copy a part of an element, and
  /// the share of the registers' rate that is left beside loads, relative to
  /// that of vectors.
  static constexpr double partCycles = 0.18, partShare = 0.65;

  /// The blocking for AMX. None if the processor lacks it, the operands have
  /// other types, or other instructions take less time.
  static std::optional<AmxBlocking> choose(const Contraction &contraction,
                                           const native::TargetInfo &target);
  /// Lines of a cache that a depth of a panel of floats takes.
  static int64_t linesOfRow(const Contraction &contraction, int64_t columns);
  /// The best panels for AMX to pack a constant right operand into; none if AMX
  /// is not chosen.
  static std::optional<Panels> choosePanels(const Contraction &contraction,
                                            const native::TargetInfo &target);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_CONTRACTION_AMXBLOCKING_H
