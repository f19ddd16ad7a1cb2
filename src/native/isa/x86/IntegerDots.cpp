//===- IntegerDots.cpp - products of bytes and of 16 bits -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/isa/x86/Intrinsic.h"
#include "native/isa/x86/X86Isa.h"

using namespace mlir;

namespace anabranch {
namespace native {

bool X86Isa::hasByteDot(ByteSigns signs, int64_t lanes) const {
  if (signs == ByteSigns::Signed)
    return lanes == 8 && features.avxVnniInt8;
  return (lanes == 16 && features.avx512Vnni) ||
         (lanes == 8 && (features.avx512Vnni || features.avxVnni));
}

Value X86Isa::dotBytes(OpBuilder &b, Location loc, ByteSigns signs, Value sum,
                       Value first, Value second) const {
  StringRef name = "avx2.vpdpbssd.256";
  // The name with AVX-512 also stands for the instruction of AVX-VNNI.
  if (signs == ByteSigns::Mixed)
    name = lanesOf(sum) == 16 ? "avx512.vpdpbusd.512" : "avx512.vpdpbusd.256";
  return callX86(b, loc, name, sum.getType(), {sum, first, second});
}

Value X86Isa::dotShorts(OpBuilder &b, Location loc, Value first,
                        Value second) const {
  int64_t lanes = lanesOf(first) / 2;
  if (lanes != 8 && (lanes != 16 || !features.avx512))
    return PortableIsa::dotShorts(b, loc, first, second);
  StringRef name = lanes == 16 ? "avx512.pmaddw.d.512" : "avx2.pmadd.wd";
  return callX86(b, loc, name, VectorType::get({lanes}, b.getI32Type()),
                 {first, second});
}

} // namespace native
} // namespace anabranch
