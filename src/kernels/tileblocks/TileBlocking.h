//===- TileBlocking.h - how a product is cut up for tiles -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Products in tile registers: whether they pay, and how much of which operand
// stays in which cache. The registers multiply int8 and bf16. Floats of f16 and
// f32 are copied as parts of bf16 (FloatParts.h). The integers of a weight of
// few bits are bf16 numbers, whose sums are scaled (GroupSums.h).

#ifndef ANABRANCH_KERNELS_TILEBLOCKS_TILEBLOCKING_H
#define ANABRANCH_KERNELS_TILEBLOCKS_TILEBLOCKING_H

#include "kernels/contraction/BlockingParameters.h"
#include "kernels/contraction/Contraction.h"
#include "kernels/contraction/ProductLayout.h"
#include "kernels/microkernel/TileBlock.h"
#include "native/target/Target.h"

namespace anabranch {
namespace kernels {

struct TileBlocking {
  ProductLayout layout;
  /// Lines of the right operand that a step of a block fetches ahead, and how
  /// many bytes ahead. Zero bytes: from the next panel.
  int64_t linesAhead = 0, bytesAhead = 0;
  /// Of products of parts, whose copies are made during products: estimated
  /// cycles of one core.
  std::optional<double> cycles = std::nullopt;

  /// The blocking, with the given parameters taken and not chosen. None, and
  /// why, if the processor lacks the registers, the operands have other types,
  /// or vector registers take less time.
  static std::optional<TileBlocking>
  choose(const Contraction &contraction, const native::TargetInfo &target,
         std::string &why, const BlockingParameters &given = {});
  /// Lines of a cache that a depth of a panel of floats takes.
  static int64_t linesOfRow(const Contraction &contraction, int64_t columns);
  /// The best panels of tile registers for a constant right operand; none if
  /// other registers take less time.
  static std::optional<Panels> choosePanels(const Contraction &contraction,
                                            const native::TargetInfo &target);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_TILEBLOCKS_TILEBLOCKING_H
