//===- BlockChoice.h - which positions run together -------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_NESTS_BLOCKCHOICE_H
#define ANABRANCH_CODEGEN_NESTS_BLOCKCHOICE_H

#include "codegen/nests/KernelModel.h"

namespace anabranch {
namespace codegen {

/// Finds the shared loop of which a vector of lanes runs several positions at
/// once: one whose positions are the neighbours of elements that the lanes read
/// far apart, or one whose positions read much in common. `chooseLanes` came
/// before.
void chooseBlock(const KernelModel &model, NestGroup &group);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_NESTS_BLOCKCHOICE_H
