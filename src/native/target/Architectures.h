//===- Architectures.h - the families of processors -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_TARGET_ARCHITECTURES_H
#define ANABRANCH_NATIVE_TARGET_ARCHITECTURES_H

#include "native/isa/Architecture.h"

namespace anabranch {
namespace native {

/// All that the compiler has code for.
llvm::ArrayRef<const Architecture *> architectures();

/// That of this machine; null if the compiler has no code for it.
const Architecture *hostArchitecture();

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_TARGET_ARCHITECTURES_H
