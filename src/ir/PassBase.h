//===- PassBase.h - the head that every pass of ours shares -----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_IR_PASSBASE_H
#define ANABRANCH_IR_PASSBASE_H

#include "mlir/Pass/Pass.h"

namespace anabranch {
namespace ir {

/// Base of the pass `Derived`, which runs on each operation `Root` and may make
/// operations of `Dialects`. `Derived` names itself:
///
///   struct CountCallsPass : ir::PassBase<CountCallsPass, mlir::ModuleOp> {
///     static constexpr llvm::StringLiteral argument = "anabranch-count-calls";
///     static constexpr llvm::StringLiteral description = "counts calls";
///     void runOnOperation() override;
///   };
template <typename Derived, typename Root, typename... Dialects>
class PassBase : public mlir::PassWrapper<Derived, mlir::OperationPass<Root>> {
public:
  /// By its address, a type of an anonymous namespace has an identity that no
  /// other file's type of the same name shares.
  static mlir::TypeID resolveTypeID() {
    static mlir::SelfOwningTypeID id;
    return id;
  }

  llvm::StringRef getArgument() const final { return Derived::argument; }
  llvm::StringRef getDescription() const final { return Derived::description; }
  void getDependentDialects(mlir::DialectRegistry &registry) const final {
    (registry.insert<Dialects>(), ...);
  }

private:
  friend Derived;
  PassBase() = default;
};

} // namespace ir
} // namespace anabranch

#endif // ANABRANCH_IR_PASSBASE_H
