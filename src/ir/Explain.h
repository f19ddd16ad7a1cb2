//===- Explain.h - why something was not done -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Every refusal to optimise carries a reason and the user's line. Refusals are
// MLIR remarks, so the diagnostic handler decides whether to read them. If a
// context is not explaining, no refusal is formatted.

#ifndef ANABRANCH_IR_EXPLAIN_H
#define ANABRANCH_IR_EXPLAIN_H

#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/Twine.h"
#include <string>

namespace anabranch {
namespace ir {

/// Says whether the compiler reports refusals in this context. Set it before
/// passes run.
void setExplaining(mlir::MLIRContext *context, bool wanted);
bool isExplaining(mlir::MLIRContext *context);

/// Reports that the compiler refused `what`, and why: "not fused: <reason>".
void explainRefusal(mlir::Location location, llvm::StringRef what,
                    const llvm::Twine &reason);

/// "file:line" of the first file location inside `location`, else its name,
/// else "".
std::string describeLocation(mlir::Location location);

/// The first file location inside `location`, if there is one.
mlir::FileLineColLoc fileLocationOf(mlir::Location location);

} // namespace ir
} // namespace anabranch

#endif // ANABRANCH_IR_EXPLAIN_H
