//===- MergePrograms.h - programs of one graph in one module ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_SERIALIZE_MERGEPROGRAMS_H
#define ANABRANCH_SCHEDULE_SERIALIZE_MERGEPROGRAMS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/ArrayRef.h"

namespace anabranch {
namespace schedule {

/// Moves the contents of the modules, all of one context and at level
/// "program", into the first one. Programs stay in order. Kernels that are
/// equal up to names and locations become one. The other modules are empty
/// afterwards.
void mergePrograms(
    llvm::MutableArrayRef<mlir::OwningOpRef<mlir::ModuleOp>> modules);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_SERIALIZE_MERGEPROGRAMS_H
