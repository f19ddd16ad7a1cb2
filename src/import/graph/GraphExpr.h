//===- GraphExpr.h - sizes of a graph description ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_GRAPH_GRAPHEXPR_H
#define ANABRANCH_IMPORT_GRAPH_GRAPHEXPR_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"

namespace anabranch {
namespace importer {

/// Expressions of integers and symbols, with floats as intermediate values:
///
///   integer | "s0" | ["add", EXPR, EXPR] | ["floor", EXPR] | {"float": 1.5}
class GraphExpr {
public:
  /// Declares a symbol before it has a value.
  void declare(llvm::StringRef symbol) { symbols.try_emplace(symbol); }
  bool isDeclared(llvm::StringRef symbol) const {
    return symbols.contains(symbol);
  }
  /// Gives a symbol its value. If it has one, that stays.
  void define(llvm::StringRef symbol, mlir::Value value);
  bool isDefined(llvm::StringRef symbol) const { return bool(lookup(symbol)); }
  /// The value of a symbol, or null.
  mlir::Value lookup(llvm::StringRef symbol) const {
    return symbols.lookup(symbol);
  }

  /// The value of the expression: an attribute if it is constant, else an
  /// `index` or `f64` value, built at the builder's insertion point. Null, with
  /// a diagnostic, if `expr` is no expression.
  mlir::OpFoldResult buildNumber(const llvm::json::Value &expr,
                                 mlir::OpBuilder &builder,
                                 mlir::Location loc) const;
  /// Does the same for a size, which is an integer.
  mlir::OpFoldResult build(const llvm::json::Value &expr,
                           mlir::OpBuilder &builder, mlir::Location loc) const;

private:
  mlir::OpFoldResult combine(const llvm::json::Array &expr,
                             mlir::OpBuilder &builder,
                             mlir::Location loc) const;

  llvm::StringMap<mlir::Value> symbols;
};

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_GRAPH_GRAPHEXPR_H
