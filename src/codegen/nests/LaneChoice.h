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

/// Decides which loop the lanes of a vector run along, and how many they are.
void chooseLanes(const KernelModel &model, NestGroup &group,
                 const TargetInfo &target);

/// Which of the nest's own loops has the lanes when no shared loop of the group
/// has them; none: the nest runs element by element.
std::optional<unsigned> innerLaneLoop(const KernelModel &model,
                                      const NestGroup &group,
                                      const LoopNest &nest);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_NESTS_LANECHOICE_H
