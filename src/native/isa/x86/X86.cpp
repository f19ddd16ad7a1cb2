//===- X86.cpp - the architecture x86-64 ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/isa/x86/X86.h"

#include "machine/processor/CpuFeatures.h"
#include "native/isa/x86/X86Isa.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"

#include <mutex>
#include <vector>

namespace anabranch {
namespace native {
namespace {

constexpr const char *avx2 =
    "+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt,+movbe";

constexpr const char *avx512 =
    "+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt,+movbe,"
    "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512cd,-prefer-256-bit";

constexpr const char *vnni = ",+avx512vnni";
constexpr const char *icelake = ",+avx512vnni,+avx512vbmi";
constexpr const char *zen4 = ",+avx512vnni,+avx512bf16,+avx512vbmi";
constexpr const char *fp16 = ",+avx512vnni,+avx512bf16,+avx512fp16";
constexpr const char *amx =
    ",+avx512vnni,+avx512bf16,+amx-tile,+amx-int8,+amx-bf16";
constexpr const char *amxFp16 =
    ",+avx512vnni,+avx512bf16,+avx512fp16,+avx512vbmi,+amx-tile,+amx-int8,"
    "+amx-bf16";

/// A target's extra features follow those of its level.
struct Row {
  const char *name, *cpu, *level, *more, *model;
};

constexpr Row rows[] = {
    {"avx2", "x86-64-v3", avx2, "", "x86-64-v3"},
    {"x86-64-v3", "x86-64-v3", avx2, "", "x86-64-v3"},
    {"avxvnni", "x86-64-v3", avx2, ",+avxvnni", "alderlake"},
    {"avxvnniint8", "x86-64-v3", avx2, ",+avxvnni,+avxvnniint8",
     "sierraforest"},
    {"avx512", "x86-64-v4", avx512, "", "x86-64-v4"},
    {"x86-64-v4", "x86-64-v4", avx512, "", "x86-64-v4"},
    {"avx512vnni", "x86-64-v4", avx512, vnni, "cascadelake"},
    {"avx512bf16", "x86-64-v4", avx512, ",+avx512bf16", "cooperlake"},
    {"avx512fp16", "x86-64-v4", avx512, fp16, "sapphirerapids"},
    {"amx", "x86-64-v4", avx512, amx, "sapphirerapids"},
    // Processors, by LLVM's names.
    {"haswell", "x86-64-v3", avx2, "", "haswell"},
    {"znver3", "x86-64-v3", avx2, "", "znver3"},
    {"alderlake", "x86-64-v3", avx2, ",+avxvnni", "alderlake"},
    {"icelake-server", "x86-64-v4", avx512, icelake, "icelake-server"},
    {"sapphirerapids", "x86-64-v4", avx512, amxFp16, "sapphirerapids"},
    {"znver4", "x86-64-v4", avx512, zen4, "znver4"},
    {"znver5", "x86-64-v4", avx512, zen4, "znver5"},
};

llvm::ArrayRef<NamedTarget> targets() {
  static const std::vector<NamedTarget> all = [] {
    std::vector<NamedTarget> made;
    for (const Row &row : rows)
      made.push_back(
          {row.name, row.cpu, std::string(row.level) + row.more, row.model});
    return made;
  }();
  return all;
}

void initialize() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
  });
}

/// LLVM only sees that the processor has AMX. The machine room asks the system
/// to give this process the registers.
llvm::StringMap<bool> hostFeatures() {
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  for (auto &feature : features)
    if (feature.first().starts_with("amx-") && feature.second)
      feature.second = machine::cpuHas(feature.first());
  return features;
}

} // namespace

const Architecture x86 = {
    "x86-64",
    "x86_64-unknown-linux-gnu",
    "elf_x86_64",
    "x86-64-v2",
    initialize,
    targets,
    // Kernels use full-width registers wherever they exist.
    "-prefer-256-bit",
    hostFeatures,
    X86Isa::create,
};

} // namespace native
} // namespace anabranch
