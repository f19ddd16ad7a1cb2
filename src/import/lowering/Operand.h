//===- Operand.h - what a lowering reads ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_LOWERING_OPERAND_H
#define ANABRANCH_IMPORT_LOWERING_OPERAND_H

#include "import/scalar/Scalar.h"
#include "mlir/IR/BuiltinTypes.h"

namespace anabranch {
namespace importer {

/// An argument of an operator, or an intermediate tensor: a tensor, an `index`
/// value (a symbolic integer), or a literal number.
struct Operand {
  mlir::Value value;
  mlir::Attribute literal;
  DType dtype;
  /// The dimensions of the iteration space that belong to the tensor's
  /// dimensions, such as those of a row's mean that every element of the row
  /// reads. Empty: aligned at the last dimension, as PyTorch broadcasts.
  llvm::SmallVector<int64_t> positions = {};

  explicit operator bool() const { return value || literal; }
  bool isTensor() const;
  bool isScalar() const { return !isTensor(); }
  /// The type of a tensor.
  mlir::RankedTensorType type() const;
  int64_t rank() const;
  int64_t size(int64_t dim) const { return type().getDimSize(dim); }
  /// Whether the operand is a steady argument (ir/SteadyInput.h). A value
  /// that depends on these alone is computed once.
  bool isSteady() const;
};

/// The elements of the operands in a body: block arguments for tensors,
/// constants for scalars, each converted.
llvm::SmallVector<Num>
elementsOf(Body &body, llvm::ArrayRef<Operand> operands,
           mlir::ValueRange blockArguments,
           llvm::function_ref<DType(DType)> elementDType);

/// A scalar operand as an element of this dtype.
Num scalarElement(Body &body, const Operand &operand, DType dtype);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_LOWERING_OPERAND_H
