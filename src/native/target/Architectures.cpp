//===- Architectures.cpp - the families of processors ---------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/target/Architectures.h"

#include "machine/processor/CpuFeatures.h"
#include "native/isa/aarch64/Aarch64.h"
#include "native/isa/x86/X86.h"

namespace anabranch {
namespace native {

llvm::ArrayRef<const Architecture *> architectures() {
  static const Architecture *const all[] = {&x86, &arm64};
  return all;
}

const Architecture *hostArchitecture() {
  llvm::StringRef host = machine::hostCpu();
  for (const Architecture *architecture : architectures())
    if (host == architecture->name)
      return architecture;
  return nullptr;
}

} // namespace native
} // namespace anabranch
