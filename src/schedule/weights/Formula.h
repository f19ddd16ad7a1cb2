//===- Formula.h - arithmetic on elements of tensors ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A formula is a tree of operations that makes each element of a weight, as a
// function of column (d0) and depth (d1). Formulas are computed in f32.

#ifndef ANABRANCH_SCHEDULE_WEIGHTS_FORMULA_H
#define ANABRANCH_SCHEDULE_WEIGHTS_FORMULA_H

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Builders.h"

#include <memory>

namespace anabranch {
namespace schedule {

/// An element of a tensor, as a function of column (d0) and depth (d1).
struct TensorElement {
  mlir::Value tensor;
  llvm::SmallVector<mlir::AffineExpr> index;
  bool isUnsigned = false;

  /// The element at a column and a depth, in its own type.
  mlir::Value extract(mlir::OpBuilder &b, mlir::Location loc,
                      mlir::Value column, mlir::Value depth) const;
};

struct FormulaNode;
using Formula = std::shared_ptr<const FormulaNode>;

/// One operation of a formula.
struct FormulaNode {
  enum class Kind { Element, Chosen, Constant, Add, Sub, Mul, Div, Exp2 };
  Kind kind = Kind::Constant;
  TensorElement element; ///< of Chosen, the position in the table
  mlir::Value table;     ///< of Chosen: [at most 16] floats
  double number = 0;
  Formula left, right; ///< of Exp2, the left one alone

  /// The type that holds each value exactly: that of a tensor of f16 or bf16
  /// whose elements are the values, else f32.
  mlir::FloatType type(mlir::Builder &b) const;

  /// Emits the value as f32.
  mlir::Value emit(mlir::OpBuilder &b, mlir::Location loc, mlir::Value column,
                   mlir::Value depth) const;
};

/// The type of a tensor's elements.
mlir::Type elementTypeOf(mlir::Value tensor);

/// A number as f32.
mlir::Value toFloat(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value,
                    bool isUnsigned);

/// Formulas of a number, and of an operation on two formulas.
Formula constantFormula(double number);
Formula combine(FormulaNode::Kind kind, Formula left, Formula right);

/// A formula holds while an element is this function of column (d0) and depth
/// (d1).
struct Assumption {
  TensorElement element;
  mlir::AffineExpr value;

  /// Emits whether it holds at a column and a depth.
  mlir::Value emit(mlir::OpBuilder &b, mlir::Location loc, mlir::Value column,
                   mlir::Value depth) const;
};

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_WEIGHTS_FORMULA_H
