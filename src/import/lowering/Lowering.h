//===- Lowering.h - what a lowering of an ATen operator is ------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A lowering turns one `anabranch.aten` call into the operations of level
// "linalg" (docs/design/foundation.md, section 3). It may refuse at any point:
// what it made until then is taken away and the operator stays a fallback call.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_IMPORT_LOWERING_LOWERING_H
#define ANABRANCH_IMPORT_LOWERING_LOWERING_H

#include "import/scalar/Scalar.h"
#include "ir/Anabranch.h"
#include "ir/Sizes.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/StringSet.h"
#include <functional>
#include <string>

namespace anabranch {
namespace importer {

using Sizes = llvm::SmallVector<mlir::OpFoldResult>;

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

using ir::productOf;
using ir::sizeOf;

/// The combining function of a reduction. Max and Min propagate NaN; And and Or
/// are for bool.
enum class Combine { Add, Mul, Max, Min, And, Or };

class LoweringBuilder {
public:
  /// The body of an elementwise operation: from one element of each operand to
  /// one element of the result.
  using BodyFn = llvm::function_ref<Num(Body &, llvm::ArrayRef<Num>)>;

  LoweringBuilder(mlir::OpBuilder &builder, ir::AtenOp op)
      : builder(builder), loc(op.getLoc()), op(op) {}
  /// For tensors alone: there is no call whose arguments and results could be
  /// asked for.
  LoweringBuilder(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  mlir::OpBuilder &builder;
  mlir::Location loc;

  template <typename OpT, typename... Args> OpT create(Args &&...args) {
    return builder.create<OpT>(loc, std::forward<Args>(args)...);
  }
  mlir::MLIRContext *context() const { return builder.getContext(); }

  /// Keeps the operator a fallback call, for this reason.
  mlir::LogicalResult refuse(const llvm::Twine &reason);
  llvm::StringRef refusal() const { return reason; }
  /// Whether the call is one that PyTorch never makes: what was built of it
  /// means nothing.
  bool isImpossible() const { return impossible; }
  /// Whether the lowering took every float that is computed of sizes: most ask
  /// for literals only and would go on with a default.
  bool readsAllReals();

  //===--- arguments ------------------------------------------------------===//

  /// The argument of this name; false when absent or None, or when it is no
  /// number or tensor.
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
  /// A `dtype` argument, if it is given.
  std::optional<DType> dtypeArg(llvm::StringRef name);
  /// Dimension `dim` of a tensor of this rank, counted from the end when
  /// negative; a 0-d tensor has one dimension for this purpose.
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
  /// The product, folded where static.
  mlir::OpFoldResult product(llvm::ArrayRef<mlir::OpFoldResult> sizes) {
    return productOf(builder, loc, sizes);
  }

  //===--- tensors --------------------------------------------------------===//

  mlir::Value empty(llvm::ArrayRef<mlir::OpFoldResult> sizes, DType dtype);
  /// A tensor of one repeated number.
  mlir::Value fill(llvm::ArrayRef<mlir::OpFoldResult> sizes, DType dtype,
                   double number);
  mlir::Value fill(llvm::ArrayRef<mlir::OpFoldResult> sizes, DType dtype,
                   const Operand &scalar);

  /// Evaluates `body` at every point of `sizes`. Tensors broadcast as PyTorch's
  /// (aligned at the last dimension, static size 1 repeats); scalars become
  /// constants. Each element arrives in `compute.math()`; the result of the
  /// body is converted to `result`.
  mlir::Value elementwise(llvm::ArrayRef<Operand> operands, DType compute,
                          DType result,
                          llvm::ArrayRef<mlir::OpFoldResult> sizes,
                          BodyFn body);
  /// The same, but each element arrives in its own `dtype.math()`.
  mlir::Value elementwiseMixed(llvm::ArrayRef<Operand> operands, DType result,
                               llvm::ArrayRef<mlir::OpFoldResult> sizes,
                               BodyFn body);
  /// Converts a tensor, if it has another dtype.
  mlir::Value convert(Operand tensor, DType dtype);

  /// Reduces `dims` (sorted or not, wrapped, distinct) of the operands' common
  /// shape `sizes`, to a tensor of dtype `accumulate` without these
  /// dimensions. `map` makes the element that is combined; it must return
  /// `accumulate`. Operands of lower rank broadcast as in elementwise.
  mlir::Value reduce(llvm::ArrayRef<Operand> operands,
                     llvm::ArrayRef<mlir::OpFoldResult> sizes,
                     llvm::ArrayRef<int64_t> dims, Combine combine,
                     DType accumulate, BodyFn map);

  /// Inserts dimensions of size one so that dimensions `dims` of the result
  /// are the new ones.
  mlir::Value unsqueeze(mlir::Value tensor, llvm::ArrayRef<int64_t> dims);
  /// Removes dimensions of static size one.
  mlir::Value squeeze(mlir::Value tensor, llvm::ArrayRef<int64_t> dims);

private:
  /// The tensors among the operands, and how loops over `sizes` read them.
  void addInputs(llvm::ArrayRef<Operand> operands,
                 llvm::ArrayRef<mlir::OpFoldResult> sizes,
                 llvm::SmallVectorImpl<mlir::Value> &inputs,
                 llvm::SmallVectorImpl<mlir::AffineMap> &maps);
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

/// One value per result of the call, of exactly its types; null for a result
/// that nobody uses and that was not made.
using Lowered = mlir::FailureOr<llvm::SmallVector<mlir::Value>>;
using LoweringFn = std::function<Lowered(ir::AtenOp, LoweringBuilder &)>;

/// The usual end of a lowering with one result.
inline Lowered lowered(mlir::Value value) {
  return llvm::SmallVector<mlir::Value>{value};
}

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_LOWERING_LOWERING_H
