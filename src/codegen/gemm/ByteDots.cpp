//===- ByteDots.cpp - products of signed bytes ----------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/gemm/ByteDots.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

/// 128 in each byte.
constexpr int32_t signBits = static_cast<int32_t>(0x80808080U);

ByteDots ByteDots::of(const TargetInfo &target) {
  ByteDots dots;
  dots.lanes = target.lanes(32);
  if (target.avx512)
    dots.kind = target.avx512Vnni ? Kind::Unsigned : Kind::Halves;
  else if (target.avxVnniInt8)
    dots.kind = Kind::Signed;
  else if (target.avxVnni)
    dots.kind = Kind::Unsigned;
  return dots;
}

static Value callIntrinsic(LaneBuilder &builder, StringRef name, Type type,
                           ValueRange operands) {
  return builder.builder
      .create<LLVM::CallIntrinsicOp>(builder.loc, type, name, operands)
      .getResult(0);
}

Value ByteDots::splat(LaneBuilder &builder, int32_t word) const {
  auto type = VectorType::get({lanes}, builder.builder.getI32Type());
  return builder.constant(DenseElementsAttr::get(type, word));
}

/// The even bytes and the odd ones as signed numbers of 16 bits.
ByteDots::Ready ByteDots::halves(LaneBuilder &builder, Value words) const {
  auto type = VectorType::get({2 * lanes}, builder.builder.getI16Type());
  Value both = builder.make<LLVM::BitcastOp>(type, words);
  Value eight =
      builder.constant(DenseElementsAttr::get(type, static_cast<int16_t>(8)));
  Value low = builder.make<arith::ShLIOp>(both, eight);
  return {builder.make<arith::ShRSIOp>(low, eight),
          builder.make<arith::ShRSIOp>(both, eight)};
}

ByteDots::Ready ByteDots::left(LaneBuilder &builder, Value words) const {
  if (kind == Kind::Halves)
    return halves(builder, words);
  return {words};
}

ByteDots::Ready ByteDots::right(LaneBuilder &builder, Value words) const {
  switch (kind) {
  case Kind::Halves:
    return halves(builder, words);
  case Kind::Unsigned:
    return {builder.make<arith::XOrIOp>(words, splat(builder, signBits))};
  case Kind::Signed:
    return {words};
  }
  return {words};
}

Value ByteDots::add(LaneBuilder &builder, Value sum, const Ready &left,
                    const Ready &right) const {
  bool wide = lanes == 16;
  Type type = sum.getType();
  switch (kind) {
  case Kind::Halves:
    for (auto [a, b] : llvm::zip(left, right)) {
      Value products = callIntrinsic(builder,
                                     wide ? "llvm.x86.avx512.pmaddw.d.512"
                                          : "llvm.x86.avx2.pmadd.wd",
                                     type, {a, b});
      sum = builder.make<arith::AddIOp>(sum, products);
    }
    return sum;
  case Kind::Unsigned:
    return callIntrinsic(builder,
                         wide ? "llvm.x86.avx512.vpdpbusd.512"
                              : "llvm.x86.avx512.vpdpbusd.256",
                         type, {sum, right[0], left[0]});
  case Kind::Signed:
    return callIntrinsic(builder, "llvm.x86.avx2.vpdpbssd.256", type,
                         {sum, right[0], left[0]});
  }
  return sum;
}

Value ByteDots::addExcess(LaneBuilder &builder, Value sum, Value words) const {
  return add(builder, sum, {words}, {splat(builder, signBits)});
}

} // namespace codegen
} // namespace anabranch
