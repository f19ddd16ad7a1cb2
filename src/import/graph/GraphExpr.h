//===- GraphExpr.h - sizes of a graph description ---------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_IMPORT_GRAPH_GRAPHEXPR_H
#define ANABRANCH_IMPORT_GRAPH_GRAPHEXPR_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"

namespace anabranch {
namespace importer {

/// Integers, symbols and arithmetic on them, and floats on the way:
///   integer | "s0" | ["add", EXPR, EXPR] | ["floor", EXPR] | {"float": 1.5}
class GraphExpr {
public:
  /// Makes a symbol known by name, before it has a value.
  void declare(llvm::StringRef symbol) { symbols.try_emplace(symbol); }
  bool isDeclared(llvm::StringRef symbol) const {
    return symbols.contains(symbol);
  }
  /// Gives a symbol its value; the first one stays.
  void define(llvm::StringRef symbol, mlir::Value value);
  bool isDefined(llvm::StringRef symbol) const { return bool(lookup(symbol)); }
  /// The value of a symbol, or null.
  mlir::Value lookup(llvm::StringRef symbol) const {
    return symbols.lookup(symbol);
  }

  /// The value of the expression: an attribute where it is a constant, else an
  /// `index` or `f64` value made at the builder's place. Null, with a
  /// diagnostic, for what is no expression.
  mlir::OpFoldResult buildNumber(const llvm::json::Value &expr,
                                 mlir::OpBuilder &builder,
                                 mlir::Location loc) const;
  /// The same for a size: an integer.
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
