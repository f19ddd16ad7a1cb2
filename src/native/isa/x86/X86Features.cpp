//===- X86Features.cpp - what a processor offers --------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/isa/x86/X86Features.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace llvm;

namespace anabranch {
namespace native {

X86Features::X86Features(StringRef text) {
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  auto has = [&](StringRef feature) {
    return any_of(parts, [&](StringRef part) {
      return part.consume_front("+") && part == feature;
    });
  };
  avx2 = has("avx2");
  fma = has("fma");
  f16c = has("f16c");
  avx512 =
      has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
  avx512Vbmi = avx512 && has("avx512vbmi");
  avx512Vnni = avx512 && has("avx512vnni");
  avxVnni = avx2 && has("avxvnni");
  avxVnniInt8 = avxVnni && has("avxvnniint8");
  avx512Bf16 = avx512 && has("avx512bf16");
  avx512Fp16 = avx512 && has("avx512fp16");
  bool hasTiles = avx512 && has("amx-tile");
  amxInt8 = hasTiles && has("amx-int8");
  amxBf16 = hasTiles && has("amx-bf16");
}

} // namespace native
} // namespace anabranch
