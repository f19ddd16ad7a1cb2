//===- KernelLibrary.h - kernels emitted, compiled and loaded ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SUPPORT_KERNELS_KERNELLIBRARY_H
#define ANABRANCH_SUPPORT_KERNELS_KERNELLIBRARY_H

#include "kernels/EmitKernel.h"
#include "support/native/KernelLibrary.h"

namespace anabranch {
namespace kernels {

/// A library whose kernels the kernel choices emit.
class KernelLibrary : public native::KernelLibrary {
public:
  static llvm::Expected<KernelLibrary>
  load(mlir::ModuleOp module, const native::CompileOptions &options) {
    return of(native::KernelLibrary::load(module, options, emitKernel));
  }
  static llvm::Expected<KernelLibrary>
  fromText(llvm::StringRef text, const native::TargetInfo &target) {
    return of(native::KernelLibrary::fromText(text, target, emitKernel));
  }

private:
  explicit KernelLibrary(native::KernelLibrary &&library)
      : native::KernelLibrary(std::move(library)) {}

  static llvm::Expected<KernelLibrary>
  of(llvm::Expected<native::KernelLibrary> library) {
    if (!library)
      return library.takeError();
    return KernelLibrary(std::move(*library));
  }
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_SUPPORT_KERNELS_KERNELLIBRARY_H
