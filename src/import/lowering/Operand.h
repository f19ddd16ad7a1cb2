//===- Operand.h - what a lowering reads ------------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

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
  /// The dimensions of the iteration space that the tensor's dimensions are
  /// (a row's mean, read for every element of the row); empty: aligned at the
  /// last one, as PyTorch broadcasts.
  llvm::SmallVector<int64_t> positions = {};

  explicit operator bool() const { return value || literal; }
  bool isTensor() const;
  bool isScalar() const { return !isTensor(); }
  /// Of tensors.
  mlir::RankedTensorType type() const;
  int64_t rank() const;
  int64_t size(int64_t dim) const { return type().getDimSize(dim); }
  /// Whether it is a constant of the program: what depends on such operands
  /// alone is computed once, at load.
  bool isFrozen() const;
};

/// The elements that a body gets: block arguments for tensors, constants for
/// scalars, each converted.
llvm::SmallVector<Num>
elementsOf(Body &body, llvm::ArrayRef<Operand> operands,
           mlir::ValueRange blockArguments,
           llvm::function_ref<DType(DType)> elementDType);

/// A scalar operand as an element of this dtype.
Num scalarElement(Body &body, const Operand &operand, DType dtype);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_LOWERING_OPERAND_H
