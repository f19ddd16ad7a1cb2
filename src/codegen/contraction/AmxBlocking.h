//===- AmxBlocking.h - how a product is cut up for AMX ----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Products of int8 and of bf16 in AMX registers: whether they pay, and how much
// of which operand is kept in which cache meanwhile.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_CONTRACTION_AMXBLOCKING_H
#define ANABRANCH_CODEGEN_CONTRACTION_AMXBLOCKING_H

#include "codegen/contraction/Contraction.h"
#include "codegen/contraction/PatchShape.h"
#include "codegen/target/Target.h"

namespace anabranch {
namespace codegen {

struct AmxBlocking {
  int64_t kPack;    ///< four of int8, two of bf16
  int64_t vectors;  ///< of a block of 16 columns each: 1 or 2
  bool readsPanels; ///< the right operand lies in panels
  bool packLeft;
  /// The copy that the left operand is read from, if it is windows.
  std::optional<PatchShape> patch;
  int64_t depth;       ///< of a block: its panel stays in the first cache
  int64_t rowsPerTile; ///< a multiple of the rows of a block
  int64_t panelsPerTile;
  /// Whether blocks of the depth are the outermost loop of a tile, so that only
  /// a block of a left operand larger than the second cache is in use.
  bool depthOutside = false;
  /// Lines of the right operand that a step of a block fetches ahead, and how
  /// many bytes: of the next panel if zero.
  int64_t linesAhead = 0, bytesAhead = 0;

  /// None if the processor has no such registers, the operands are of other
  /// types, or other instructions take less time.
  static std::optional<AmxBlocking> choose(const Contraction &contraction,
                                           const TargetInfo &target);
  /// The panels that a constant right operand is best packed into for AMX; none
  /// if AMX is not chosen.
  static std::optional<Panels> choosePanels(const Contraction &contraction,
                                            const TargetInfo &target);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_CONTRACTION_AMXBLOCKING_H
