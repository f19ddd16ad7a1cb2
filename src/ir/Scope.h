//===- Scope.h - operators keep their stream --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The scope is a discardable attribute, so that common subexpressions of two
// streams differ. A rewriter that replaces operators listens with a
// ScopeKeeper. A lost scope costs overlap, never the order of dependent work.
//
// The location of an operator holds its super kernel instead.

#ifndef ANABRANCH_IR_SCOPE_H
#define ANABRANCH_IR_SCOPE_H

#include "ir/Anabranch.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/PatternMatch.h"

namespace anabranch {
namespace ir {

/// Bounds on what a scope may say.
constexpr int64_t maxPriority = 100, maxCores = 1 << 16;

/// The scope of an operator; null on the default stream without a limit.
ScopeAttr scopeOf(mlir::Operation *op);

/// The tag of its stream; empty for the default stream.
llvm::StringRef streamOf(mlir::Operation *op);

/// The streams that run at each call: all but `initialize`.
llvm::SmallVector<StreamOp> streamsOfCalls(mlir::ModuleOp module);

/// Sets the scope of an operator that makes tensors; ignores others and a null
/// scope.
void setScope(mlir::Operation *op, ScopeAttr scope);

/// A list of numbers in an attribute of this name, on any operation.
struct NumberList {
  llvm::StringLiteral name;

  llvm::ArrayRef<int64_t> of(mlir::Operation *op) const;
  /// An empty list sets nothing.
  void set(mlir::Operation *op, llvm::ArrayRef<int64_t> numbers) const;
};

/// The points in the order that an operator makes when it is done, and the
/// points that it waits for. NumberFences gives the numbers.
inline constexpr NumberList pointsMade{"anabranch.points"};
inline constexpr NumberList pointsAwaited{"anabranch.after"};

/// The fences that come after a command of the program, and the fences that
/// come before the command. KeepFences gives the numbers.
inline constexpr NumberList fencesAfter{"anabranch.fences_after"};
inline constexpr NumberList fencesBefore{"anabranch.fences_before"};
void dropFences(mlir::Operation *op);

/// Copies scope and order of an operator to its replacement.
void copyOrder(mlir::Operation *from, mlir::Operation *to);
/// Removes scope and order.
void dropOrder(mlir::Operation *op);

/// The super kernel that a location asks for; null: none. A kernel may consist
/// of several operators. If one of them is excluded from super kernels (an
/// empty name), the kernel is too. Else the first marked operator decides.
SuperAttr superOf(mlir::Location location);
/// The location, inside of a super kernel's scope.
mlir::Location inSuper(mlir::Location location, SuperAttr super);

/// Gives every new operator the scope of the operator that the rewriter
/// replaces.
class ScopeKeeper : public mlir::RewriterBase::Listener {
public:
  ScopeKeeper() = default;
  explicit ScopeKeeper(mlir::Operation *from) : scope(scopeOf(from)) {}

  void notifyPatternBegin(const mlir::Pattern &pattern,
                          mlir::Operation *op) override {
    scope = scopeOf(op);
  }
  void notifyOperationInserted(mlir::Operation *op,
                               mlir::OpBuilder::InsertPoint) override {
    setScope(op, scope);
  }

private:
  ScopeAttr scope;
};

} // namespace ir
} // namespace anabranch

#endif // ANABRANCH_IR_SCOPE_H
