//===- Int8Dot.cpp - products of bytes ------------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/microkernel/Int8Dot.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

using Signs = native::Isa::ByteSigns;

/// The value 128 in each byte.
constexpr int32_t signBits = static_cast<int32_t>(0x80808080U);

Int8Dot Int8Dot::of(const native::TargetInfo &target, bool leftIsUnsigned,
                    bool rightIsUnsigned) {
  Int8Dot dots;
  dots.lanes = target.lanes(32);
  dots.leftIsUnsigned = leftIsUnsigned;
  dots.rightIsUnsigned = rightIsUnsigned;
  bool isMixed = leftIsUnsigned || rightIsUnsigned;
  bool hasMixed = target.dotsMixedBytes();
  if (!isMixed && target.isa().hasByteDot(Signs::Signed, dots.lanes))
    dots.kind = Kind::Signed;
  else if (hasMixed)
    dots.kind = isMixed ? Kind::Mixed : Kind::Moved;
  return dots;
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
  OpBuilder &b = builder.builder;
  switch (kind) {
  case Kind::Widened:
    for (auto [leftPart, rightPart] : llvm::zip(left, right)) {
      Value products =
          builder.isa.dotShorts(b, builder.loc, leftPart, rightPart);
      sum = builder.make<arith::AddIOp>(sum, products);
    }
    return sum;
  case Kind::Moved:
  case Kind::Mixed: {
    // The unsigned bytes come first.
    Value first = leftIsUnsigned ? left[0] : right[0];
    Value second = leftIsUnsigned ? right[0] : left[0];
    return builder.isa.dotBytes(b, builder.loc, Signs::Mixed, sum, first,
                                second);
  }
  case Kind::Signed:
    return builder.isa.dotBytes(b, builder.loc, Signs::Signed, sum, right[0],
                                left[0]);
  }
  return sum;
}

Value Int8Dot::addExcess(LaneBuilder &builder, Value sum, Value words) const {
  return add(builder, sum, {words}, {splat(builder, signBits)});
}

} // namespace kernels
} // namespace anabranch
