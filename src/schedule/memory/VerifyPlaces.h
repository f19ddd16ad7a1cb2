//===- VerifyPlaces.h - are live buffers disjoint? --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_MEMORY_VERIFYPLACES_H
#define ANABRANCH_SCHEDULE_MEMORY_VERIFYPLACES_H

#include "ir/Anabranch.h"

namespace anabranch {
namespace schedule {

/// Fails, with a diagnostic, unless every planned buffer has a place and two
/// buffers that may live at the same time are disjoint. Those of symbolic size
/// share bytes only if they have the same offset. Near linear in the number of
/// buffers and of commands, for each stream.
mlir::LogicalResult verifyPlaces(ir::ProgramOp program);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_MEMORY_VERIFYPLACES_H
