//===- X86Features.h - what a processor offers ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_ISA_X86_X86FEATURES_H
#define ANABRANCH_NATIVE_ISA_X86_X86FEATURES_H

#include "llvm/ADT/StringRef.h"

namespace anabranch {
namespace native {

/// A processor's features, from LLVM's text ("+avx2,+fma,-sse4a").
struct X86Features {
  explicit X86Features(llvm::StringRef text);

  bool avx2, fma, f16c;
  bool avx512; ///< F, BW, DQ and VL together
  bool avx512Vnni;
  bool avx512Vbmi;  ///< tables of bytes
  bool avxVnni;     ///< the same for 256 bits, without AVX-512
  bool avxVnniInt8; ///< with two signed operands
  bool avx512Bf16, avx512Fp16, amxInt8, amxBf16;
};

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_ISA_X86_X86FEATURES_H
