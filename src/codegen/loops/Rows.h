//===- Rows.h - loops that all nests of a group share -----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_LOOPS_ROWS_H
#define ANABRANCH_CODEGEN_LOOPS_ROWS_H

#include "codegen/loops/KernelModel.h"

namespace anabranch {
namespace codegen {

/// Divides the nests into groups and finds their rows, joined where memory is
/// contiguous across them.
void formGroups(KernelModel &model);

/// Decides which loop the lanes of a vector run along, and how many they are.
void chooseLanes(KernelModel &model, Group &group, const TargetInfo &target);

/// Finds the row whose positions are the neighbours of what the lanes read far
/// apart. `chooseLanes` came before.
void chooseBlocks(KernelModel &model, Group &group);

/// The trip count of rows that run as one, if it is known.
std::optional<int64_t> knownSize(KernelModel &model, const Group &group,
                                 const Row &row);

/// True if the loops `outer` and `inner` of a nest can run as one: every access
/// that moves with one moves with both, as over one longer dimension.
bool canJoin(KernelModel &model, const Nest &nest, unsigned outer,
             unsigned inner);

/// How an access moves from one iteration of a loop to the next.
enum class Motion { Still, Neighbour, Jump };
Motion motionOf(KernelModel &model, const Read &read, unsigned loop);
Motion motionOf(KernelModel &model, const Nest &nest,
                const Destination &destination, unsigned loop);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_LOOPS_ROWS_H
