//===- X86.h - the architecture x86-64 --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_ISA_X86_X86_H
#define ANABRANCH_NATIVE_ISA_X86_X86_H

#include "native/isa/Architecture.h"

namespace anabranch {
namespace native {

extern const Architecture x86;

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_ISA_X86_X86_H
