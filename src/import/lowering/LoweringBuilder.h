//===- LoweringBuilder.h - what lowerings build with ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_LOWERING_LOWERINGBUILDER_H
#define ANABRANCH_IMPORT_LOWERING_LOWERINGBUILDER_H

#include "import/lowering/Operand.h"
#include "import/scalar/Combine.h"
#include "ir/Anabranch.h"
#include "ir/Sizes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/StringSet.h"
#include <string>

namespace anabranch {
namespace importer {

using Sizes = llvm::SmallVector<mlir::OpFoldResult>;

using ir::productOf;
using ir::sizeOf;

/// Reads the arguments of one call and builds the operations that compute it.
class LoweringBuilder {
public:
  /// The body of an elementwise operation: computes one element of the result
  /// from one element of each operand.
  using BodyFn = llvm::function_ref<Num(Body &, llvm::ArrayRef<Num>)>;

  LoweringBuilder(mlir::OpBuilder &builder, ir::AtenOp op)
      : builder(builder), loc(op.getLoc()), op(op) {}
  /// A builder for tensors alone. It has no call, so arguments and results
  /// cannot be asked for.
  LoweringBuilder(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  mlir::OpBuilder &builder;
  mlir::Location loc;

  template <typename OpT, typename... Args> OpT create(Args &&...args) {
    return builder.create<OpT>(loc, std::forward<Args>(args)...);
  }
  mlir::MLIRContext *context() const { return builder.getContext(); }

  /// Refuses the lowering for this reason: the operator stays a call of
  /// PyTorch.
  mlir::LogicalResult refuse(const llvm::Twine &reason);
  llvm::StringRef refusal() const { return reason; }
  /// Whether PyTorch never makes such a call, so that what was built has no
  /// meaning.
  bool isImpossible() const { return impossible; }
  /// Whether the lowering read every float that is computed from sizes. Most
  /// lowerings ask for literals only, and would go on with a default.
  bool readsAllReals();

  //===--- arguments ------------------------------------------------------===//

  /// The argument of this name. False if it is absent or None, or no number or
  /// tensor.
  Operand operand(llvm::StringRef name);
  llvm::SmallVector<Operand> operandList(llvm::StringRef name);
  Operand tensor(mlir::Value value, bool isUnsigned = false);
  Operand tensor(mlir::Value value, DType dtype) { return {value, {}, dtype}; }
  Operand tensor(mlir::Value value, DType dtype,
                 llvm::ArrayRef<int64_t> positions) {
    return {value, {}, dtype, llvm::SmallVector<int64_t>(positions)};
  }
  Operand number(double value);
  Operand number(int64_t value);
  Operand boolean(bool value);
  DType resultDType(unsigned i = 0);
  mlir::RankedTensorType resultType(unsigned i = 0);
  /// The `dtype` argument, if the call has one.
  std::optional<DType> dtypeArg(llvm::StringRef name);
  /// Dimension `dim` of a tensor of this rank; a negative one counts from the
  /// end. A 0-d tensor counts as having one dimension.
  static int64_t wrapDim(int64_t dim, int64_t rank);
  /// torch.result_type of these operands.
  DType promote(llvm::ArrayRef<Operand> operands);

  //===--- sizes ----------------------------------------------------------===//

  Sizes sizesOf(mlir::Value tensor);
  mlir::OpFoldResult sizeOf(mlir::Value tensor, int64_t dim) {
    return importer::sizeOf(builder, loc, tensor, dim);
  }
  Sizes resultSizes(unsigned i = 0);
  mlir::OpFoldResult indexAttr(int64_t value);
  /// The size as an `index` value.
  mlir::Value indexValue(mlir::OpFoldResult size);
  /// The product, folded where the factors are static.
  mlir::OpFoldResult product(llvm::ArrayRef<mlir::OpFoldResult> sizes) {
    return productOf(builder, loc, sizes);
  }

  //===--- tensors --------------------------------------------------------===//

  mlir::Value empty(llvm::ArrayRef<mlir::OpFoldResult> sizes, DType dtype);
  /// A tensor that repeats one number.
  mlir::Value fill(llvm::ArrayRef<mlir::OpFoldResult> sizes, DType dtype,
                   double number);
  mlir::Value fill(llvm::ArrayRef<mlir::OpFoldResult> sizes, DType dtype,
                   const Operand &scalar);

  /// Evaluates `body` at every point of `sizes`. Tensors broadcast as in
  /// PyTorch (aligned at the last dimension, static size 1 repeats); scalars
  /// become constants. Each element has the dtype `compute.math()`. The result
  /// of the body is converted to `result`.
  mlir::Value elementwise(llvm::ArrayRef<Operand> operands, DType compute,
                          DType result,
                          llvm::ArrayRef<mlir::OpFoldResult> sizes,
                          BodyFn body);
  /// Does the same, with each element in its own `dtype.math()`.
  mlir::Value elementwiseMixed(llvm::ArrayRef<Operand> operands, DType result,
                               llvm::ArrayRef<mlir::OpFoldResult> sizes,
                               BodyFn body);
  /// Converts a tensor, if it has another dtype.
  mlir::Value convert(Operand tensor, DType dtype);

  /// Reduces `dims` (sorted or not, wrapped, distinct) of the operands' common
  /// shape `sizes`. The result has dtype `accumulate` and lacks these
  /// dimensions. `map` computes the element that is combined, in `accumulate`.
  /// Operands of lower rank broadcast as in elementwise.
  mlir::Value reduce(llvm::ArrayRef<Operand> operands,
                     llvm::ArrayRef<mlir::OpFoldResult> sizes,
                     llvm::ArrayRef<int64_t> dims, Combine combine,
                     DType accumulate, BodyFn map);

  /// Inserts dimensions of size one, which are dimensions `dims` of the result.
  mlir::Value unsqueeze(mlir::Value tensor, llvm::ArrayRef<int64_t> dims);
  /// Removes dimensions of static size one.
  mlir::Value squeeze(mlir::Value tensor, llvm::ArrayRef<int64_t> dims);

private:
  /// Loops over `sizes` that write to `init` through `output`. `body` computes
  /// the new element from those of the operands, each in `elementDType`, and
  /// from the old element.
  mlir::linalg::GenericOp buildLoops(
      llvm::ArrayRef<Operand> operands,
      llvm::ArrayRef<mlir::OpFoldResult> sizes, mlir::Value init,
      mlir::AffineMap output, llvm::ArrayRef<mlir::utils::IteratorType> loops,
      llvm::function_ref<DType(DType)> elementDType,
      llvm::function_ref<Num(Body &, llvm::ArrayRef<Num>, mlir::Value)> body);
  mlir::Value buildElementwise(llvm::ArrayRef<Operand> operands, DType result,
                               llvm::ArrayRef<mlir::OpFoldResult> sizes,
                               llvm::function_ref<DType(DType)> elementDType,
                               BodyFn body);

  mlir::AffineMap broadcastMap(const Operand &operand,
                               llvm::ArrayRef<mlir::OpFoldResult> sizes);

  ir::AtenOp op;
  std::string reason;
  llvm::StringSet<> askedReals;
  bool impossible = false;
};

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_LOWERING_LOWERINGBUILDER_H
