//===- Placement.h - where results of @main are written ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Decides, before any command exists, which kernels and operators write
// straight into an output or into an updated input. It also lists the results
// that need a copy instead.

#ifndef ANABRANCH_SCHEDULE_PROGRAM_PLACEMENT_H
#define ANABRANCH_SCHEDULE_PROGRAM_PLACEMENT_H

#include "schedule/program/Overwrites.h"
#include "llvm/ADT/DenseMap.h"

namespace anabranch {
namespace schedule {

/// The memory of the caller that a result is written to.
struct Place {
  enum Kind { Output, Input } kind;
  int64_t index;                   ///< result of @main, argument of @main
  mlir::DenseI64ArrayAttr strides; ///< null when contiguous
  int64_t inPlace = -1;            ///< the dispatch's input that it overwrites
};

class Placement {
public:
  Placement(mlir::func::FuncOp main, const Overwrites &overwrites);

  /// Null when the value is not placed.
  const Place *find(mlir::Value value) const {
    auto found = places.find(value);
    return found == places.end() ? nullptr : &found->second;
  }
  /// The results of @main that need a copy. The others are aliases or scalars,
  /// or have a place.
  llvm::ArrayRef<unsigned> copies() const { return copied; }

private:
  void placeOutput(unsigned number, mlir::Value value);
  void placeMutation(unsigned number, mlir::Value value, unsigned argument);

  llvm::SmallVector<mlir::OpResult> chainTo(mlir::OpResult last) const;
  int64_t changedInput(mlir::OpResult result) const;
  mlir::FailureOr<int64_t> overwrittenInput(mlir::OpResult result,
                                            mlir::BlockArgument argument,
                                            bool isStrided,
                                            llvm::StringRef &reason) const;
  void placeChain(llvm::ArrayRef<mlir::OpResult> chain, Place place);

  mlir::func::FuncOp main;
  const Overwrites &overwrites;
  llvm::DenseMap<mlir::Value, Place> places;
  llvm::SmallVector<unsigned> copied;
};

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_PROGRAM_PLACEMENT_H
