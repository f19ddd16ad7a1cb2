//===- SerializeProgram.h - the program as it is stored ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_SERIALIZE_SERIALIZEPROGRAM_H
#define ANABRANCH_SCHEDULE_SERIALIZE_SERIALIZEPROGRAM_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LogicalResult.h"
#include "package/program_generated.h"

namespace anabranch {
namespace schedule {

/// Fills `result` from the module's planned `anabranch.program`; the programs
/// after it become variants. A diagnostic names anything that a package cannot
/// hold.
mlir::LogicalResult serializeProgram(mlir::ModuleOp module,
                                     package::ProgramT &result);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_SERIALIZE_SERIALIZEPROGRAM_H
