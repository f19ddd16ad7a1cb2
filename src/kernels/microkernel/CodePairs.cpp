//===- CodePairs.cpp - pairs of bf16 from floats of 8 bits ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/microkernel/CodePairs.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/APFloat.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

constexpr int64_t byteBits = 8, signBit = 0x80;

bool CodePairs::exist(const native::Isa &isa, Type code, int64_t words) {
  if (!code || !(code.isFloat8E4M3FN() || code.isFloat8E5M2()))
    return false;
  Type byte = IntegerType::get(code.getContext(), byteBits);
  return isa.hasLookup(VectorType::get({words * depths}, byte));
}

CodePairs::CodePairs(LaneBuilder &lanes, FloatType code)
    : lanes(lanes), code(code) {}

/// The bits of the bf16 of a code.
static uint64_t bitsOf(FloatType code, uint64_t magnitude) {
  llvm::APFloat number(code.getFloatSemantics(),
                       llvm::APInt(byteBits, magnitude));
  bool isInexact;
  number.convert(llvm::APFloat::BFloat(), llvm::APFloat::rmNearestTiesToEven,
                 &isInexact);
  return number.bitcastToAPInt().getZExtValue();
}

/// A byte of the bf16 of each code, without its sign.
Value CodePairs::lookup(Value codes, int64_t shift) const {
  SmallVector<int8_t> table;
  for (uint64_t magnitude = 0; magnitude < uint64_t(signBit); ++magnitude)
    table.push_back(static_cast<int8_t>(bitsOf(code, magnitude) >> shift));
  auto type = VectorType::get({signBit}, lanes.builder.getI8Type());
  return lanes.isa.lookup(lanes.builder, lanes.loc,
                          DenseElementsAttr::get(type, ArrayRef(table)), codes);
}

std::array<Value, 2> CodePairs::of(Value bytes) const {
  int64_t words = cast<VectorType>(bytes.getType()).getNumElements();
  auto type = VectorType::get({words * depths}, lanes.builder.getI8Type());
  Value codes = lanes.make<LLVM::BitcastOp>(Type(type), bytes);
  Value low = lookup(codes, 0);
  Value sign = lanes.make<arith::AndIOp>(
      codes, lanes.constant(
                 DenseElementsAttr::get(type, static_cast<int8_t>(signBit))));
  Value high = lanes.make<arith::OrIOp>(lookup(codes, byteBits), sign);
  auto pairs = [&](int64_t first) -> Value {
    SmallVector<int64_t> order;
    for (int64_t word = 0; word < words; ++word)
      for (int64_t i = first; i < first + 2; ++i)
        order.append({word * depths + i, (words + word) * depths + i});
    Value halves = lanes.make<vector::ShuffleOp>(low, high, order);
    return lanes.make<LLVM::BitcastOp>(
        Type(VectorType::get({words}, lanes.builder.getF32Type())), halves);
  };
  return {pairs(0), pairs(2)};
}

} // namespace kernels
} // namespace anabranch
