//===- WeightFormula.h - how a weight is dequantised ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The formula of a frozen weight that a product reads, followed back to
// integers:
//
//   (integer - center) * scale + offset
//
// Floats of eight bits can be in the place of the integers.
//
// Scale and offset are formulas of other frozen tensors, the same for all
// depths of a group. The reader finds every order of operations that is linear
// in the integer: (w - z) * s, w * s - z, (w - 8) * (s * t) / u. Operations
// between the stored integers and the first linear arithmetic (masks, shifts,
// stacks of nibbles) belong to the integers.
//
// Formulas are computed in f32. Roundings to narrower floats are left out: they
// would only add errors.

#ifndef ANABRANCH_SCHEDULE_WEIGHTS_WEIGHTFORMULA_H
#define ANABRANCH_SCHEDULE_WEIGHTS_WEIGHTFORMULA_H

#include "schedule/weights/IntegerRange.h"
#include "schedule/weights/SteadyValues.h"

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Builders.h"

#include <memory>
#include <string>

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
  enum class Kind { Element, Constant, Add, Sub, Mul, Div };
  Kind kind = Kind::Constant;
  TensorElement element;
  double number = 0;
  Formula left, right;

  /// The type that holds each value exactly: that of a tensor of f16 or bf16
  /// whose elements are the values, else f32.
  mlir::FloatType type(mlir::Builder &b) const;

  /// Emits the value as f32.
  mlir::Value emit(mlir::OpBuilder &b, mlir::Location loc, mlir::Value column,
                   mlir::Value depth) const;
};

/// Formulas of a number, and of an operation on two formulas.
Formula constantFormula(double number);
Formula combine(FormulaNode::Kind kind, Formula left, Formula right);

struct WeightFormula {
  TensorElement integer;
  IntegerRange range; ///< of the integers; all of 8 bits for codes of floats
  double center = 0;
  Formula scale;  ///< null: one
  Formula offset; ///< null: zero
  int64_t group = 0;

  /// Whether the stored elements are floats of eight bits.
  bool isSmallFloat() const;

  /// The formula of an operand [columns, depths] of a product, or none and the
  /// reason. `map` gives the operand's dimensions as functions of column and
  /// depth.
  static std::optional<WeightFormula> find(mlir::Value operand,
                                           mlir::AffineMap map, int64_t columns,
                                           int64_t depths, SteadyValues &steady,
                                           std::string &why);
};

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_WEIGHTS_WEIGHTFORMULA_H
