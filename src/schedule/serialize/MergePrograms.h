//===- MergePrograms.h - programs of one graph in one module ----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_SCHEDULE_SERIALIZE_MERGEPROGRAMS_H
#define ANABRANCH_SCHEDULE_SERIALIZE_MERGEPROGRAMS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/ArrayRef.h"

namespace anabranch {
namespace schedule {

/// Moves what the modules, all of one context and at level "program", hold into
/// the first: programs stay in order, kernels that are equal up to names and
/// locations are there once. The other modules are empty afterwards.
void mergePrograms(
    llvm::MutableArrayRef<mlir::OwningOpRef<mlir::ModuleOp>> modules);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_SERIALIZE_MERGEPROGRAMS_H
