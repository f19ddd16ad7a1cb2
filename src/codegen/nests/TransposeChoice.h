//===- TransposeChoice.h - which loads are transposed -----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_NESTS_TRANSPOSECHOICE_H
#define ANABRANCH_CODEGEN_NESTS_TRANSPOSECHOICE_H

#include "codegen/nests/KernelModel.h"

namespace anabranch {
namespace codegen {

/// Finds the shared loop whose positions are the neighbours of elements that
/// the lanes read far apart. `chooseLanes` came before.
void chooseTransposedLoads(const KernelModel &model, NestGroup &group);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_NESTS_TRANSPOSECHOICE_H
