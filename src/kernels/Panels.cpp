//===- Panels.cpp - the panels into which constants are packed ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/Panels.h"

#include "kernels/tileblocks/TileBlocking.h"

namespace anabranch {
namespace kernels {

std::optional<Panels> choosePanels(const Contraction &contraction,
                                   const native::TargetInfo &target,
                                   PanelsFor purpose) {
  if (auto panels = TileBlocking::choosePanels(contraction, target))
    return panels;
  return panelsOfVectors(contraction, target, purpose);
}

} // namespace kernels
} // namespace anabranch
