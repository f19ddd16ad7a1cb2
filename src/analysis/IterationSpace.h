//===- IterationSpace.h - an operator's loops and reads ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Which loop of an operator runs along which dimension of what it reads and
// makes. Fusion asks this of every operator, symbolic sizes included;
// AccessMap.h answers the finer question at which index a kernel reads.

#ifndef ANABRANCH_ANALYSIS_ITERATIONSPACE_H
#define ANABRANCH_ANALYSIS_ITERATIONSPACE_H

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace anabranch {
namespace analysis {

/// Operands, then the values from above that the regions use.
llvm::SmallVector<mlir::Value> allOperands(mlir::Operation *op);

/// Where an operator reads a tensor: for each dimension the loop that runs
/// along all of it, or one of these values.
enum : int { partOfDim = -1, unitDim = -2 };
struct DimRead {
  mlir::Value value;
  llvm::SmallVector<int> dims;
};

/// The iteration space of an operator: the sizes of its loops (dynamic ones as
/// ShapedType::kDynamic), which of them reduce, and the loop that runs along
/// each dimension of each result.
struct IterationSpace {
  llvm::SmallVector<int64_t> sizes;
  llvm::SmallVector<bool> reduces;
  llvm::SmallVector<llvm::SmallVector<int>> resultDims;
};
IterationSpace spaceOf(mlir::Operation *op);

/// The tensors that an operator reads. The function looks through the operators
/// for which `isCloned` is true, since readers recompute them.
llvm::SmallVector<DimRead>
dimReadsOf(mlir::Operation *op,
           llvm::function_ref<bool(mlir::Operation *)> isCloned);

} // namespace analysis
} // namespace anabranch

#endif // ANABRANCH_ANALYSIS_ITERATIONSPACE_H
