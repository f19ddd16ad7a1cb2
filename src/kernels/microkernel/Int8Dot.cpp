//===- Int8Dot.cpp - products of bytes ------------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/microkernel/Int8Dot.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// The value 128 in each byte.
constexpr int32_t signBits = static_cast<int32_t>(0x80808080U);

Int8Dot Int8Dot::of(const native::TargetInfo &target, bool leftIsUnsigned,
                    bool rightIsUnsigned) {
  Int8Dot dots;
  dots.lanes = target.lanes(32);
  dots.leftIsUnsigned = leftIsUnsigned;
  dots.rightIsUnsigned = rightIsUnsigned;
  if (!(target.avx512 ? target.avx512Vnni : target.avxVnni))
    dots.kind = Kind::Widened;
  else if (leftIsUnsigned || rightIsUnsigned)
    dots.kind = Kind::Mixed;
  else
    dots.kind =
        target.avxVnniInt8 && !target.avx512 ? Kind::Signed : Kind::Moved;
  return dots;
}

static Value callIntrinsic(LaneBuilder &builder, StringRef name, Type type,
                           ValueRange operands) {
  return builder.builder
      .create<LLVM::CallIntrinsicOp>(builder.loc, type, name, operands)
      .getResult(0);
}

Value Int8Dot::splat(LaneBuilder &builder, int32_t word) const {
  auto type = VectorType::get({lanes}, builder.builder.getI32Type());
  return builder.constant(DenseElementsAttr::get(type, word));
}

/// The even bytes and the odd ones, as signed numbers of 16 bits.
Int8Dot::Factor Int8Dot::widen(LaneBuilder &builder, Value words,
                               bool isUnsigned) const {
  auto type = VectorType::get({2 * lanes}, builder.builder.getI16Type());
  Value both = builder.make<LLVM::BitcastOp>(type, words);
  Value eight =
      builder.constant(DenseElementsAttr::get(type, static_cast<int16_t>(8)));
  Value low = builder.make<arith::ShLIOp>(both, eight);
  if (isUnsigned)
    return {builder.make<arith::ShRUIOp>(low, eight),
            builder.make<arith::ShRUIOp>(both, eight)};
  return {builder.make<arith::ShRSIOp>(low, eight),
          builder.make<arith::ShRSIOp>(both, eight)};
}

Int8Dot::Factor Int8Dot::left(LaneBuilder &builder, Value words) const {
  if (kind == Kind::Widened)
    return widen(builder, words, leftIsUnsigned);
  return {words};
}

Int8Dot::Factor Int8Dot::right(LaneBuilder &builder, Value words) const {
  switch (kind) {
  case Kind::Widened:
    return widen(builder, words, rightIsUnsigned);
  case Kind::Moved:
    return {builder.make<arith::XOrIOp>(words, splat(builder, signBits))};
  case Kind::Mixed:
  case Kind::Signed:
    return {words};
  }
  return {words};
}

Value Int8Dot::add(LaneBuilder &builder, Value sum, const Factor &left,
                   const Factor &right) const {
  bool wide = lanes == 16;
  Type type = sum.getType();
  switch (kind) {
  case Kind::Widened:
    for (auto [a, b] : llvm::zip(left, right)) {
      Value products = callIntrinsic(builder,
                                     wide ? "llvm.x86.avx512.pmaddw.d.512"
                                          : "llvm.x86.avx2.pmadd.wd",
                                     type, {a, b});
      sum = builder.make<arith::AddIOp>(sum, products);
    }
    return sum;
  case Kind::Moved:
  case Kind::Mixed: {
    // The unsigned bytes come first.
    Value first = leftIsUnsigned ? left[0] : right[0];
    Value second = leftIsUnsigned ? right[0] : left[0];
    return callIntrinsic(builder,
                         wide ? "llvm.x86.avx512.vpdpbusd.512"
                              : "llvm.x86.avx512.vpdpbusd.256",
                         type, {sum, first, second});
  }
  case Kind::Signed:
    return callIntrinsic(builder, "llvm.x86.avx2.vpdpbssd.256", type,
                         {sum, right[0], left[0]});
  }
  return sum;
}

Value Int8Dot::addExcess(LaneBuilder &builder, Value sum, Value words) const {
  return add(builder, sum, {words}, {splat(builder, signBits)});
}

} // namespace kernels
} // namespace anabranch
