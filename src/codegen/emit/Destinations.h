//===- Destinations.h - where results are written ---------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A returned value is often a view of what was computed: reshaped, permuted, or
// several values side by side. Seen backwards, the result's memory is a view
// too, and each value is written straight into its part of it.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_EMIT_DESTINATIONS_H
#define ANABRANCH_CODEGEN_EMIT_DESTINATIONS_H

#include "codegen/emit/KernelFrame.h"

namespace anabranch {
namespace codegen {

/// Where a value is written: result `result` of the kernel, seen through the
/// views `path` that lead from the returned value back to the written one.
struct Destination {
  unsigned result;
  llvm::SmallVector<mlir::Operation *> path;
};

struct Written {
  mlir::Value value;
  Destination destination;
};

/// The values that fill result `result`. Nothing if the result is already
/// there (an argument written in place by nobody).
llvm::SmallVector<Written> findWritten(mlir::func::FuncOp source,
                                       unsigned result);

/// The permutation of a generic that only reorders dimensions: dimension i of
/// the result is dimension `[i]` of the input.
std::optional<llvm::SmallVector<int64_t>> permutationOf(mlir::Operation *op);

/// The dimension of the written value whose neighbours are neighbours in
/// memory, if there is one.
std::optional<int64_t> unitDimension(mlir::func::FuncOp source,
                                     const Destination &destination);

/// True if stepping past the end of dimension `inner` leads to the next element
/// of dimension `inner - 1` in memory.
bool isContiguousAcross(mlir::func::FuncOp source,
                        const Destination &destination, mlir::Value value,
                        int64_t inner);

/// The part of the result's memory that the value fills.
Buffer destinationBuffer(KernelFrame &frame, const Destination &destination);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_EMIT_DESTINATIONS_H
