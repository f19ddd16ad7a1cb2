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

/// Finds the block loop: the shared loop of which one vector of lanes runs
/// several positions at once. Along it, either elements are neighbours that the
/// lanes read far apart, or the positions read much in common. Call chooseLanes
/// before.
void chooseBlock(const KernelModel &model, NestGroup &group);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_NESTS_BLOCKCHOICE_H
