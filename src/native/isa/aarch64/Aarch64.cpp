//===- Aarch64.cpp - the architecture 64-bit Arm --------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/isa/aarch64/Aarch64.h"

#include "machine/processor/ArmFeatures.h"
#include "machine/processor/CpuFeatures.h"
#include "native/isa/aarch64/Aarch64Isa.h"
#include "llvm/Support/TargetSelect.h"

#include <mutex>
#include <vector>

namespace anabranch {
namespace native {
namespace {

/// ARMv8.2 with the options that every server core has.
constexpr const char *v82 =
    "+fp-armv8,+neon,+crc,+lse,+rdm,+fullfp16,+dotprod,+rcpc";

/// A target's extra features follow those of ARMv8.2.
struct Row {
  const char *name, *cpu, *more, *model;
};

constexpr Row rows[] = {
    {"aarch64", "generic", "", "aarch64"},
    {"neoverse-n1", "neoverse-n1", "", "neoverse-n1"},
    {"ampere-altra", "neoverse-n1", "", "neoverse-n1"},
    // Vectors stay at 128 bits where the core has SVE: it has four units of
    // 128 bits for them, or two of 256, so that the longer ones gain nothing.
    {"neoverse-v1", "neoverse-v1", ",+bf16,+i8mm,+sve", "neoverse-v1"},
    {"neoverse-v2", "neoverse-v2", ",+bf16,+i8mm,+sve,+sve2", "neoverse-v2"},
    {"grace", "neoverse-v2", ",+bf16,+i8mm,+sve,+sve2", "neoverse-v2"},
    {"apple-m1", "apple-m1", "", "apple-m1"},
};

llvm::ArrayRef<NamedTarget> targets() {
  static const std::vector<NamedTarget> all = [] {
    std::vector<NamedTarget> made;
    for (const Row &row : rows)
      made.push_back(
          {row.name, row.cpu, std::string(v82) + row.more, row.model});
    return made;
  }();
  return all;
}

void initialize() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeAArch64AsmParser();
  });
}

/// What Linux lets this process use. LLVM 19 reads only a few of these features
/// from /proc/cpuinfo, and no dot products.
llvm::StringMap<bool> hostFeatures() {
  llvm::StringMap<bool> features;
  for (std::string_view name : machine::armFeatures())
    features[name] = machine::cpuHas(name);
  return features;
}

} // namespace

const Architecture arm64 = {
    "aarch64",          "aarch64-unknown-linux-gnu",
    "aarch64linux",     "aarch64",
    initialize,         targets,
    /*tuning=*/"+neon", hostFeatures,
    Aarch64Isa::create,
};

} // namespace native
} // namespace anabranch
