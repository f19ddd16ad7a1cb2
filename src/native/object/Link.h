//===- Link.h - object files to a shared object -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_OBJECT_LINK_H
#define ANABRANCH_NATIVE_OBJECT_LINK_H

#include "native/isa/Architecture.h"
#include "native/object/KernelObject.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace anabranch {
namespace native {

/// Links objects in-process into the shared object `path`, which depends on
/// libm and libc only. It exports the symbols of the objects.
llvm::Error linkKernels(llvm::ArrayRef<KernelObject> objects,
                        const Architecture &architecture, llvm::StringRef path);

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_OBJECT_LINK_H
