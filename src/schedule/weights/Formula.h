//===- Formula.h - arithmetic on elements of tensors ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A formula is a tree of operations that makes each element of a weight, as a
// function of column (d0), depth (d1) and the depth's place (d2). The packed
// weight has its depths in the order of their places: a place is the depth
// itself, unless a list gives the depths in groups another order
// (DepthOrder.h). Formulas are computed in f32.

#ifndef ANABRANCH_SCHEDULE_WEIGHTS_FORMULA_H
#define ANABRANCH_SCHEDULE_WEIGHTS_FORMULA_H

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Builders.h"

#include <memory>

namespace anabranch {
namespace schedule {

/// An element of a weight.
struct WeightPoint {
  mlir::Value column, depth, place;
};

/// An element of a tensor, as a function of column (d0), depth (d1) and place
/// (d2).
struct TensorElement {
  mlir::Value tensor;
  llvm::SmallVector<mlir::AffineExpr> index;
  bool isUnsigned = false;

  /// The element for a point, in its own type.
  mlir::Value extract(mlir::OpBuilder &b, mlir::Location loc,
                      const WeightPoint &at) const;
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
  mlir::Value emit(mlir::OpBuilder &b, mlir::Location loc,
                   const WeightPoint &at) const;
};

/// The type of a tensor's elements.
mlir::Type elementTypeOf(mlir::Value tensor);

/// A number as f32.
mlir::Value toFloat(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value,
                    bool isUnsigned);

/// Formulas of a number, and of an operation on two formulas.
Formula constantFormula(double number);
Formula combine(FormulaNode::Kind kind, Formula left, Formula right);

/// A formula holds while an element is this function of column (d0), depth (d1)
/// and place (d2).
struct Assumption {
  TensorElement element;
  mlir::AffineExpr value;

  /// Emits whether it holds at a point.
  mlir::Value emit(mlir::OpBuilder &b, mlir::Location loc,
                   const WeightPoint &at) const;
};

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_WEIGHTS_FORMULA_H
