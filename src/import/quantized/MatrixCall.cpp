//===- MatrixCall.cpp - a call that multiplies matrices -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/quantized/MatrixCall.h"

#include "import/lowering/Contract.h"
#include "import/lowering/Shapes.h"

using namespace mlir;

namespace anabranch {
namespace importer {

static RankedTensorType typeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType());
}

std::optional<MatrixCall> MatrixCall::of(LoweringBuilder &b, ir::AtenOp op) {
  StringRef callee = op.getCallee();
  MatrixCall call;
  auto take = [&](StringRef left, StringRef right, StringRef bias) {
    call.left = op.getOperandArg(left);
    call.right = op.getOperandArg(right);
    if (!bias.empty())
      call.bias = b.operand(bias);
  };
  // A factor that is computed from sizes is no literal.
  auto isOne = [&](StringRef name) {
    return !op.getArg(name) || op.getFloatArg(name) == 1;
  };
  if (op.getOrdered() || op.getNumResults() != 1)
    return std::nullopt;
  if (callee == "mm" || callee == "bmm") {
    take("self", "mat2", "");
  } else if (callee == "linear") {
    take("input", "weight", "bias");
    call.hasRowsOfRight = true;
  } else if (callee == "addmm" && isOne("alpha") && isOne("beta")) {
    take("mat1", "mat2", "self");
  }
  if (!call.left || !call.right || call.leftRank() < 2 ||
      call.rightRank() < 2 || call.rightRank() > 3 ||
      (call.rightRank() == 3 && call.leftRank() != 3))
    return std::nullopt;
  return call;
}

int64_t MatrixCall::leftRank() const { return typeOf(left).getRank(); }
int64_t MatrixCall::rightRank() const { return typeOf(right).getRank(); }

int64_t MatrixCall::depth() const {
  int64_t size = typeOf(left).getDimSize(leftDepth());
  return ShapedType::isDynamic(size) ? typeOf(right).getDimSize(rightDepth())
                                     : size;
}

Value MatrixCall::contract(LoweringBuilder &b, const Operand &left,
                           const Operand &right) const {
  Sizes rows = b.sizesOf(left.value);
  OpFoldResult last = rows.pop_back_val();
  OpFoldResult columns =
      b.sizeOf(right.value, hasRowsOfRight ? 0 : rightRank() - 1);
  Sizes sizes = rows, flat = rows;
  bool isBatched = rightRank() == 3;
  Value matrix = left.value;
  if (!isBatched && left.rank() != 2) {
    // A single right operand takes all rows as one matrix.
    flat = {b.product(rows)};
    matrix = reshape(b.builder, b.loc, matrix, {flat[0], last});
  }
  sizes.push_back(columns);
  flat.push_back(columns);
  unsigned loops = isBatched ? 4 : 3, m = loops - 3, n = m + 1, k = m + 2;
  auto map = [&](unsigned row, unsigned column) {
    SmallVector<unsigned> dims = {row, column};
    if (isBatched)
      dims.insert(dims.begin(), 0);
    return AffineMap::getMultiDimMapWithTargets(loops, dims, b.context());
  };
  AffineMap ofRight = hasRowsOfRight ? map(n, k) : map(k, n);
  Value sums = importer::contract(b.builder, b.loc, {matrix, map(m, k)},
                                  {right.value, ofRight}, map(m, n), flat,
                                  left.dtype, right.dtype);
  return reshape(b.builder, b.loc, sums, sizes);
}

} // namespace importer
} // namespace anabranch
