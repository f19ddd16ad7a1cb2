//===- Link.h - object files to a shared object -----------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_OBJECT_LINK_H
#define ANABRANCH_CODEGEN_OBJECT_LINK_H

#include "codegen/object/KernelObject.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace anabranch {
namespace codegen {

/// Links objects in-process into the shared object `path`, which depends on
/// libm and libc only. It exports the symbols of the objects.
llvm::Error linkKernels(llvm::ArrayRef<KernelObject> objects,
                        llvm::StringRef path);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_OBJECT_LINK_H
