//===- WordProduct.cpp - products of vectors of words ---------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/microkernel/WordProduct.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

/// sum + a.even * b.even + a.odd * b.odd.
static Value addPairs(LaneBuilder &lanes, Value sum, Value a, Value b) {
  auto type = cast<VectorType>(sum.getType());
  Type pairs =
      VectorType::get({2 * type.getNumElements()}, lanes.builder.getBF16Type());
  auto asPairs = [&](Value value) -> Value {
    return lanes.builder.create<LLVM::BitcastOp>(lanes.loc, pairs, value);
  };
  return lanes.builder
      .create<LLVM::CallIntrinsicOp>(
          lanes.loc, Type(type), StringRef("llvm.x86.avx512bf16.dpbf16ps.512"),
          ValueRange{sum, asPairs(a), asPairs(b)})
      .getResult(0);
}

WordProduct::Factor WordProduct::left(LaneBuilder &lanes, Value words) const {
  return int8 ? int8->left(lanes, words) : Factor{words};
}

WordProduct::Factor WordProduct::right(LaneBuilder &lanes, Value words) const {
  return int8 ? int8->right(lanes, words) : Factor{words};
}

Value WordProduct::add(LaneBuilder &lanes, Value sum, const Factor &left,
                       const Factor &right) const {
  if (int8)
    return int8->add(lanes, sum, left, right);
  if (isBF16Pair)
    return addPairs(lanes, sum, left[0], right[0]);
  if (isa<FloatType>(laneType(sum)))
    return lanes.builder.create<vector::FMAOp>(lanes.loc, left[0], right[0],
                                               sum);
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

} // namespace codegen
} // namespace anabranch
