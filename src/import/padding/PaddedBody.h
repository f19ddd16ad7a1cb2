//===- PaddedBody.h - a loop over padded dimensions -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_PADDING_PADDEDBODY_H
#define ANABRANCH_IMPORT_PADDING_PADDEDBODY_H

#include "import/padding/PaddedSizes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace anabranch {

/// The known facts of a tensor.
struct TensorFacts {
  llvm::SmallVector<SizeLabel> labels; ///< by dimension
  /// By dimension: the value wherever its coordinate is padding. Null: unknown.
  llvm::SmallVector<mlir::Attribute> padding;
  /// The dimension whose coordinate every element equals.
  std::optional<unsigned> position;
};
using FactTable = llvm::DenseMap<mlir::Value, TensorFacts>;

/// The body of a generic, evaluated as far as constants and coordinates go:
/// once inside of all sizes, and once in the padding of each loop.
class PaddedBody {
public:
  PaddedBody(mlir::linalg::GenericOp op, const PaddedSizes &sizes,
             const FactTable &facts)
      : op(op), sizes(sizes), facts(facts) {}

  /// Why padding would change the result; empty if it does not.
  std::string check();
  /// The facts of a result. Call `check` before.
  TensorFacts factsOf(unsigned result);

private:
  /// The known facts of a scalar of the body.
  struct Scalar {
    mlir::Attribute constant;
    std::optional<unsigned> loop; ///< whose coordinate it is
    bool isTainted = false;       ///< changes with the padded size
  };
  using Scalars = llvm::DenseMap<mlir::Value, Scalar>;

  std::string labelLoops();
  std::string evaluate(std::optional<unsigned> padded, Scalars &scalars);
  Scalar argument(unsigned number, std::optional<unsigned> padded);
  Scalar outside(mlir::Value value);
  std::string apply(mlir::Operation &inner, std::optional<unsigned> padded,
                    Scalars &scalars);
  std::string gather(mlir::Operation &inner, std::optional<unsigned> padded,
                     Scalars &scalars);
  std::optional<bool> compare(mlir::Operation &inner, Scalars &scalars);
  bool isNeutral(unsigned result, Scalars &scalars);

  mlir::linalg::GenericOp op;
  const PaddedSizes &sizes;
  const FactTable &facts;
  llvm::SmallVector<SizeLabel> loops;
  /// The scalars of each result, in the padding of each loop.
  llvm::DenseMap<unsigned, Scalars> inPadding;
  Scalars inside;
};

} // namespace anabranch

#endif // ANABRANCH_IMPORT_PADDING_PADDEDBODY_H
