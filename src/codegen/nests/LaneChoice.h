//===- LaneChoice.h - which loop has the lanes ------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_NESTS_LANECHOICE_H
#define ANABRANCH_CODEGEN_NESTS_LANECHOICE_H

#include "codegen/nests/KernelModel.h"
#include "codegen/target/Target.h"

namespace anabranch {
namespace codegen {

/// Decides along which loop the lanes of a vector run, and how many they are.
void chooseLanes(const KernelModel &model, NestGroup &group,
                 const TargetInfo &target);

/// The nest's own loop that has the lanes, if no shared loop of the group has
/// them. None: the nest runs element by element.
std::optional<unsigned> innerLaneLoop(const KernelModel &model,
                                      const NestGroup &group,
                                      const LoopNest &nest);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_NESTS_LANECHOICE_H
