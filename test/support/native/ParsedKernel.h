//===- ParsedKernel.h - a kernel read from text -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SUPPORT_NATIVE_PARSEDKERNEL_H
#define ANABRANCH_SUPPORT_NATIVE_PARSEDKERNEL_H

#include "ir/Anabranch.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

namespace anabranch {
namespace native {

/// A module of MLIR text, in a context of its own. False if the text does not
/// parse; `module` and `function` must not be called then.
class ParsedKernel {
public:
  explicit ParsedKernel(llvm::StringRef text)
      : context(allDialects()),
        parsed(mlir::parseSourceString<mlir::ModuleOp>(text, &context)) {}

  explicit operator bool() const { return bool(parsed); }
  mlir::ModuleOp module() const { return *parsed; }
  /// The first function of the module.
  mlir::func::FuncOp function() const {
    return *module().getOps<mlir::func::FuncOp>().begin();
  }

private:
  static mlir::DialectRegistry allDialects() {
    mlir::DialectRegistry registry;
    ir::registerAllDialects(registry);
    return registry;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> parsed;
};

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_SUPPORT_NATIVE_PARSEDKERNEL_H
