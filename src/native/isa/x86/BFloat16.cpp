//===- BFloat16.cpp - products of bf16, and rounding to it ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/isa/x86/Intrinsic.h"
#include "native/isa/x86/X86Isa.h"

using namespace mlir;

namespace anabranch {
namespace native {

constexpr int64_t fullLanes = 16, halfLanes = 8;

Value X86Isa::dotBF16(OpBuilder &b, Location loc, Value sum, Value first,
                      Value second) const {
  auto type = cast<VectorType>(sum.getType());
  Type pairs = VectorType::get({2 * type.getNumElements()}, b.getBF16Type());
  auto asPairs = [&](Value value) -> Value {
    return b.create<LLVM::BitcastOp>(loc, pairs, value);
  };
  Value firstPairs = asPairs(first), secondPairs = asPairs(second);
  return callX86(b, loc, "avx512bf16.dpbf16ps.512", type,
                 {sum, firstPairs, secondPairs});
}

Value X86Isa::roundToBF16(OpBuilder &b, Location loc, Value floats) const {
  int64_t lanes = lanesOf(floats);
  if (!features.avx512Bf16 || (lanes != fullLanes && lanes != halfLanes))
    return {};
  StringRef name = lanes == fullLanes ? "avx512bf16.cvtneps2bf16.512"
                                      : "avx512bf16.cvtneps2bf16.256";
  auto shape = cast<VectorType>(floats.getType());
  return callX86(b, loc, name, shape.clone(b.getBF16Type()), floats);
}

Value X86Isa::roundToBF16(OpBuilder &b, Location loc, Value first,
                          Value second) const {
  if (!features.avx512Bf16 || lanesOf(first) != fullLanes)
    return {};
  // The instruction's first operand has the upper half.
  return callX86(b, loc, "avx512bf16.cvtne2ps2bf16.512",
                 VectorType::get({2 * fullLanes}, b.getBF16Type()),
                 {second, first});
}

} // namespace native
} // namespace anabranch
