//===- RegionCall.h - calls that run regions of the program -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A region is a module of its own, with a function @main, until the modules of
// a graph become programs of one package. `anabranch.aten "anabranch::cond"`,
// `anabranch.aten "anabranch::loop"` and `anabranch.aten "anabranch::call"`
// name the regions that they run by number.

#ifndef ANABRANCH_SCHEDULE_PROGRAM_REGIONCALL_H
#define ANABRANCH_SCHEDULE_PROGRAM_REGIONCALL_H

#include "ir/Anabranch.h"

namespace anabranch {
namespace schedule {

/// `predicate`, `regions` (where it is false, where it is true), `arguments`.
/// Results: those of the regions, and the new values of the arguments that both
/// write (WritingCall.h).
constexpr llvm::StringLiteral branchCallee = "anabranch::cond";

/// `region`, `arguments`, `items`: which arguments are numbers in the memory of
/// a tensor, of floats their bits.
constexpr llvm::StringLiteral callCallee = "anabranch::call";

/// `condition` (a region, or none), `trips` (a size, or none), `body`,
/// `carried`, `scanned`, `arguments`. Results: the carried values that trips do
/// not write where they lie, those that trips stack, and the new values of what
/// they write (WritingCall.h).
constexpr llvm::StringLiteral loopCallee = "anabranch::loop";

/// The unit attribute of a region's module, and of its program.
constexpr llvm::StringLiteral regionAttr = "anabranch.region";

inline bool isRegionCall(mlir::Operation *op) {
  auto call = llvm::dyn_cast_or_null<ir::AtenOp>(op);
  return call &&
         (call.getCallee() == branchCallee || call.getCallee() == loopCallee ||
          call.getCallee() == callCallee);
}

/// Whether the operation is in the module of a region.
inline bool isInRegion(mlir::Operation *op) {
  return op->getParentOp() && op->getParentOp()->hasAttr(regionAttr);
}

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_PROGRAM_REGIONCALL_H
