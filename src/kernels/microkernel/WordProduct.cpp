//===- WordProduct.cpp - products of vectors of words ---------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/microkernel/WordProduct.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// The even and the odd bf16 of each word, as f32.
static WordProduct::Factor splitPairs(LaneBuilder &lanes, Value words) {
  auto floats = cast<VectorType>(words.getType());
  auto bits = cast<VectorType>(floats.clone(lanes.builder.getI32Type()));
  auto splat = [&](int32_t value) {
    return lanes.constant(DenseElementsAttr::get(bits, value));
  };
  constexpr auto highHalf = static_cast<int32_t>(0xffff0000U);
  Value both = lanes.make<LLVM::BitcastOp>(bits, words);
  Value even = lanes.make<arith::ShLIOp>(both, splat(16));
  Value odd = lanes.make<arith::AndIOp>(both, splat(highHalf));
  return {lanes.make<LLVM::BitcastOp>(floats, even),
          lanes.make<LLVM::BitcastOp>(floats, odd)};
}

native::Isa::MatrixProduct WordProduct::matrices() const {
  using Product = native::Isa::MatrixProduct;
  if (!int8)
    return Product::BF16;
  return int8->kind == Int8Dot::Kind::Mixed ? Product::MixedInt8
                                            : Product::Int8;
}

WordProduct::Factor WordProduct::left(LaneBuilder &lanes, Value words) const {
  if (pairs == Pairs::Split)
    return splitPairs(lanes, words);
  return int8 ? int8->left(lanes, words) : Factor{words};
}

WordProduct::Factor WordProduct::right(LaneBuilder &lanes, Value words) const {
  if (pairs == Pairs::Split)
    return splitPairs(lanes, words);
  return int8 ? int8->right(lanes, words) : Factor{words};
}

Value WordProduct::add(LaneBuilder &lanes, Value sum, const Factor &left,
                       const Factor &right) const {
  if (int8)
    return int8->add(lanes, sum, left, right);
  if (pairs == Pairs::Dot)
    return lanes.isa.dotBF16(lanes.builder, lanes.loc, sum, left[0], right[0]);
  if (isa<FloatType>(laneType(sum))) {
    for (auto [a, b] : llvm::zip_equal(left, right))
      sum = lanes.builder.create<vector::FMAOp>(lanes.loc, a, b, sum);
    return sum;
  }
  return lanes.make<arith::AddIOp>(lanes.make<arith::MulIOp>(left[0], right[0]),
                                   sum);
}

Value sumLanes(LaneBuilder &lanes, Value vector) {
  if (isa<FloatType>(laneType(vector)))
    return lanes.builder.create<vector::ReductionOp>(
        lanes.loc, vector::CombiningKind::ADD, vector,
        arith::FastMathFlags::reassoc);
  return lanes.builder.create<vector::ReductionOp>(
      lanes.loc, vector::CombiningKind::ADD, vector);
}

} // namespace kernels
} // namespace anabranch
