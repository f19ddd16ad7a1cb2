//===- Aarch64.h - the architecture 64-bit Arm ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_ISA_AARCH64_AARCH64_H
#define ANABRANCH_NATIVE_ISA_AARCH64_AARCH64_H

#include "native/isa/Architecture.h"

namespace anabranch {
namespace native {

extern const Architecture arm64;

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_ISA_AARCH64_AARCH64_H
