//===- X86Isa.cpp - which instructions features stand for -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/isa/x86/X86Isa.h"

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
  avx512Vnni = avx512 && has("avx512vnni");
  avxVnni = avx2 && has("avxvnni");
  avxVnniInt8 = avxVnni && has("avxvnniint8");
  avx512Bf16 = avx512 && has("avx512bf16");
  avx512Fp16 = avx512 && has("avx512fp16");
  bool hasTiles = avx512 && has("amx-tile");
  amxInt8 = hasTiles && has("amx-int8");
  amxBf16 = hasTiles && has("amx-bf16");
}

std::shared_ptr<const Isa> X86Isa::create(StringRef text) {
  X86Features features(text);
  if (!features.avx2 || !features.fma)
    return nullptr;
  return std::make_shared<X86Isa>(features);
}

bool X86Isa::has(Multiply multiply) const {
  switch (multiply) {
  case Multiply::FmaF32:
    return true;
  case Multiply::FmaF16:
    return features.avx512Fp16;
  case Multiply::DotBF16:
    return features.avx512Bf16;
  case Multiply::DotInt8:
    return features.avx512Vnni || features.avxVnni;
  case Multiply::AmxBF16:
    return features.amxBf16;
  case Multiply::AmxInt8:
    return features.amxInt8;
  }
  return false;
}

const Tiles *X86Isa::tiles() const {
  return features.amxInt8 || features.amxBf16 ? &amx : nullptr;
}

} // namespace native
} // namespace anabranch
