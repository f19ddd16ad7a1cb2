//===- Destinations.h - where results are written ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A result of a kernel is often a view of what it computes: reshaped, permuted,
// or several values side by side. Seen backwards, the result's memory is a view
// too. So the kernel writes each value straight into its part of that memory.

#ifndef ANABRANCH_KERNELS_EMIT_DESTINATIONS_H
#define ANABRANCH_KERNELS_EMIT_DESTINATIONS_H

#include "kernels/emit/KernelFunction.h"

namespace anabranch {
namespace kernels {

/// The memory that a value is written to: result `result` of the kernel, seen
/// through the views `path`. The path leads from the returned value back to the
/// written one.
struct Destination {
  unsigned result;
  llvm::SmallVector<mlir::Operation *> path;
};

struct Written {
  mlir::Value value;
  Destination destination;
};

/// The values that fill result `result`. Empty if the result needs no writing:
/// it is an argument that no operation updates.
llvm::SmallVector<Written> findWritten(mlir::func::FuncOp source,
                                       unsigned result);

/// The permutation of a generic that only reorders dimensions; none for other
/// operations. Dimension i of the result is dimension `[i]` of the input.
std::optional<llvm::SmallVector<int64_t>> permutationOf(mlir::Operation *op);

/// The dimension of the written value along which neighbours are neighbours in
/// memory, if there is one.
std::optional<int64_t> unitDimension(mlir::func::FuncOp source,
                                     const Destination &destination);

/// The two innermost dimensions of the written value in memory: the elements
/// along `inner` are neighbours, and fill the steps along `outer`.
struct InnermostDimensions {
  int64_t outer;
  int64_t inner;
};
/// None if no such two dimensions are known.
std::optional<InnermostDimensions>
innermostDimensions(mlir::func::FuncOp source, const Destination &destination);

/// True if, in memory, the element after the end of dimension `inner` is the
/// next one of dimension `inner - 1`.
bool isContiguousAcross(mlir::func::FuncOp source,
                        const Destination &destination, int64_t inner);

/// The part of the result's memory that the value fills.
Buffer destinationBuffer(KernelFunction &function,
                         const Destination &destination);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_EMIT_DESTINATIONS_H
