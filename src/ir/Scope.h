//===- Scope.h - operators keep their stream --------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// The scope is a discardable attribute, so that common subexpressions of two
// streams differ. Whatever makes operators out of an operator listens with a
// ScopeKeeper. A scope that got lost would cost overlap, never the order of
// dependent work.
//
// The super kernel of an operator stands in its location instead.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_IR_SCOPE_H
#define ANABRANCH_IR_SCOPE_H

#include "ir/Anabranch.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/PatternMatch.h"

namespace anabranch {
namespace ir {

/// Bounds on what a scope may say.
constexpr int64_t kMaxPriority = 100, kMaxCores = 1 << 16;

/// The scope of an operator; null on the default stream without a limit.
ScopeAttr scopeOf(mlir::Operation *op);

/// The tag of its stream; empty for the default stream.
llvm::StringRef streamOf(mlir::Operation *op);

/// The streams of a module's programs that run at each call.
llvm::SmallVector<StreamOp> streamsOfCalls(mlir::ModuleOp module);

/// Sets the scope of an operator that makes tensors; ignores others and a null
/// scope.
void setScope(mlir::Operation *op, ScopeAttr scope);

/// A list of numbers that operations carry in an attribute of this name.
struct NumberList {
  llvm::StringLiteral name;

  llvm::ArrayRef<int64_t> of(mlir::Operation *op) const;
  /// An empty list sets nothing.
  void set(mlir::Operation *op, llvm::ArrayRef<int64_t> numbers) const;
};

/// The points in the order that an operator makes when it is done, and those
/// that it comes after. The numbers are those of NumberFences.
inline constexpr NumberList pointsMade{"anabranch.points"};
inline constexpr NumberList pointsAwaited{"anabranch.after"};

/// The fences that a command of the program stands ahead of, and those that it
/// stands behind. The numbers are those of KeepFences.
inline constexpr NumberList fencesAhead{"anabranch.ahead"};
inline constexpr NumberList fencesBehind{"anabranch.behind"};
void dropFences(mlir::Operation *op);

/// Scope and order of an operator go over to what takes its place.
void copyOrder(mlir::Operation *from, mlir::Operation *to);
/// Takes scope and order away.
void dropOrder(mlir::Operation *op);

/// The super kernel that a location asks for; null: none is asked for. Of a
/// kernel made of several operators, one that is taken out takes it out (the
/// name is empty), else the first that is marked decides.
SuperAttr superOf(mlir::Location location);
/// The location, inside of a super kernel's scope.
mlir::Location inSuper(mlir::Location location, SuperAttr super);

/// Gives every new operator the scope of the one that it is made from.
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
