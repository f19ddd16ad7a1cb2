//===- Overwrites.h - which new values lie over old ones --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// One analysis says where the old value of a memory is still needed. An
// operator that writes (ir/WritingCall.h), and a kernel that writes slices into
// an argument, then works on a copy. Elsewhere it writes in place.

#ifndef ANABRANCH_SCHEDULE_PROGRAM_OVERWRITES_H
#define ANABRANCH_SCHEDULE_PROGRAM_OVERWRITES_H

#include "ir/WritingCall.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace anabranch {
namespace schedule {

class Overwrites {
public:
  /// Decides for each operator that writes, in the order of @main.
  explicit Overwrites(mlir::func::FuncOp main);

  /// Whether the new value lies where the old one lay. If not, the operator
  /// gets a copy.
  bool isInPlace(mlir::Value newValue) const {
    return inPlace.contains(newValue);
  }
  /// The first value in the memory of this one, before reshapes and before
  /// operators that wrote in place.
  mlir::Value firstIn(mlir::Value value) const;

  /// Whether no operator after `writer` reads this value or one that lies over
  /// it. The caller may read an argument: it gets the new value.
  bool isLastUse(mlir::Value value, mlir::Operation *writer) const;

private:
  void decide(ir::AtenOp call, mlir::OpResult newValue);
  /// Why the memory of this value must not be written; empty if it may be.
  llvm::StringRef refuseMemory(mlir::Value old) const;
  mlir::DenseI64ArrayAttr stridesOf(mlir::Value value) const;
  llvm::StringRef refuse(ir::AtenOp call, mlir::OpResult newValue) const;

  mlir::func::FuncOp main;
  llvm::DenseSet<unsigned> mutated; ///< arguments that the program may write
  llvm::DenseSet<mlir::Value> inPlace;
};

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_PROGRAM_OVERWRITES_H
