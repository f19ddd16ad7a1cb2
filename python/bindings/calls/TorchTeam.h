//===- TorchTeam.h - PyTorch's OpenMP threads for calls ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_TORCHTEAM_H
#define ANABRANCH_BINDINGS_TORCHTEAM_H

#include "anabranch/Machine.h"

namespace anabranch::python {

/// Lets calls of programs run as regions of the OpenMP team that PyTorch's
/// operators use. Does nothing if this PyTorch uses no OpenMP, or a fork may
/// have left a team without its threads. The first call after PyTorch is loaded
/// decides; later ones cost nothing.
void lendTorchTeam();

/// The team that was lent; null: none.
const FrameworkTeam *torchTeam();

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_TORCHTEAM_H
