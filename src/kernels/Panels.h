//===- Panels.h - the panels into which constants are packed ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_PANELS_H
#define ANABRANCH_KERNELS_PANELS_H

#include "kernels/contraction/VectorBlocking.h"

namespace anabranch {
namespace kernels {

/// The best panels to pack a constant right operand into: those of the plan
/// that would read them. None if no plan of the product reads panels.
std::optional<Panels> choosePanels(const Contraction &contraction,
                                   const native::TargetInfo &target,
                                   PanelsFor purpose = PanelsFor::Rows);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_PANELS_H
