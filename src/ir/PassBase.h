//===- PassBase.h - a pass is a name and a function -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IR_PASSBASE_H
#define ANABRANCH_IR_PASSBASE_H

#include "mlir/Pass/Pass.h"

#include <functional>

namespace anabranch {
namespace ir {

/// Base of a pass that has options on the command line; `makePass` makes one
/// without. The pass `Derived` runs on each operation `Root`, may make
/// operations of `Dialects`, and names itself:
///
///   struct CountCallsPass : ir::PassBase<CountCallsPass, mlir::ModuleOp> {
///     static constexpr llvm::StringLiteral argument = "anabranch-count-calls";
///     static constexpr llvm::StringLiteral description = "counts calls";
///     void runOnOperation() override;
///     Option<bool> all{*this, "all", llvm::cl::desc("in kernels, too")};
///   };
template <typename Derived, typename Root, typename... Dialects>
class PassBase : public mlir::PassWrapper<Derived, mlir::OperationPass<Root>> {
public:
  /// The type's identity is the address of this function's variable. So two
  /// types of the same name, in anonymous namespaces of two files, differ.
  static mlir::TypeID resolveTypeID() {
    static mlir::SelfOwningTypeID id;
    return id;
  }

  llvm::StringRef getArgument() const final { return derived().argument; }
  llvm::StringRef getDescription() const final { return derived().description; }
  void getDependentDialects(mlir::DialectRegistry &registry) const final {
    (registry.insert<Dialects>(), ...);
  }

private:
  friend Derived;
  PassBase() = default;
  const Derived &derived() const { return static_cast<const Derived &>(*this); }
};

/// The pass of `makePass`.
template <typename Root, typename... Dialects>
class FunctionPass final
    : public PassBase<FunctionPass<Root, Dialects...>, Root, Dialects...> {
public:
  using Function = std::function<mlir::LogicalResult(Root)>;

  FunctionPass(llvm::StringLiteral argument, llvm::StringLiteral description,
               Function function)
      : argument(argument), description(description),
        function(std::move(function)) {}

  llvm::StringRef getName() const override { return argument; }
  void runOnOperation() override {
    if (mlir::failed(function(this->getOperation())))
      this->signalPassFailure();
  }

  llvm::StringLiteral argument, description;

private:
  Function function;
};

/// A pass that calls `function` with each operation `Root`. The function may
/// make operations of `Dialects`, and reports the error if it fails.
template <typename Root, typename... Dialects>
std::unique_ptr<mlir::Pass>
makePass(llvm::StringLiteral argument, llvm::StringLiteral description,
         typename FunctionPass<Root, Dialects...>::Function function) {
  return std::make_unique<FunctionPass<Root, Dialects...>>(
      argument, description, std::move(function));
}

} // namespace ir
} // namespace anabranch

#endif // ANABRANCH_IR_PASSBASE_H
