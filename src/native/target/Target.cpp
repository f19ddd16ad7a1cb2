//===- Target.cpp - the processor that kernels are made for ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/target/Target.h"

#include "machine/processor/CpuFeatures.h"
#include "machine/processor/CpuModels.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/TargetParser/Host.h"

#include <algorithm>
#include <mutex>
#include <vector>

using namespace llvm;

namespace anabranch {
namespace native {
namespace {

constexpr const char *linuxTriple = "x86_64-unknown-linux-gnu";

constexpr const char *avx2Features =
    "+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt,+movbe";

constexpr const char *avx512Features =
    "+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt,+movbe,"
    "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512cd,-prefer-256-bit";

/// Targets that compile the same code on every machine. Their extra features
/// follow those of their level.
struct FixedTarget {
  const char *name, *cpu, *level, *more, *model;
};

constexpr const char *tileFeatures =
    ",+avx512vnni,+avx512bf16,+amx-tile,+amx-int8,+amx-bf16";
constexpr const char *halfFeatures = ",+avx512vnni,+avx512bf16,+avx512fp16";
constexpr const char *sapphireRapidsFeatures =
    ",+avx512vnni,+avx512bf16,+avx512fp16,+amx-tile,+amx-int8,+amx-bf16";
constexpr const char *zenFeatures = ",+avx512vnni,+avx512bf16";

constexpr FixedTarget fixedTargets[] = {
    {"avx2", "x86-64-v3", avx2Features, "", "x86-64-v3"},
    {"x86-64-v3", "x86-64-v3", avx2Features, "", "x86-64-v3"},
    {"avxvnni", "x86-64-v3", avx2Features, ",+avxvnni", "alderlake"},
    {"avxvnniint8", "x86-64-v3", avx2Features, ",+avxvnni,+avxvnniint8",
     "sierraforest"},
    {"avx512", "x86-64-v4", avx512Features, "", "x86-64-v4"},
    {"x86-64-v4", "x86-64-v4", avx512Features, "", "x86-64-v4"},
    {"avx512vnni", "x86-64-v4", avx512Features, ",+avx512vnni", "cascadelake"},
    {"avx512bf16", "x86-64-v4", avx512Features, ",+avx512bf16", "cooperlake"},
    {"avx512fp16", "x86-64-v4", avx512Features, halfFeatures, "sapphirerapids"},
    {"amx", "x86-64-v4", avx512Features, tileFeatures, "sapphirerapids"},
    // Processors, by LLVM's names.
    {"haswell", "x86-64-v3", avx2Features, "", "haswell"},
    {"znver3", "x86-64-v3", avx2Features, "", "znver3"},
    {"alderlake", "x86-64-v3", avx2Features, ",+avxvnni", "alderlake"},
    {"icelake-server", "x86-64-v4", avx512Features, ",+avx512vnni",
     "icelake-server"},
    {"sapphirerapids", "x86-64-v4", avx512Features, sapphireRapidsFeatures,
     "sapphirerapids"},
    {"znver4", "x86-64-v4", avx512Features, zenFeatures, "znver4"},
    {"znver5", "x86-64-v4", avx512Features, zenFeatures, "znver5"},
};

/// Whether "+feature" stands in a comma-separated feature string.
bool hasFeature(StringRef features, StringRef feature) {
  SmallVector<StringRef> parts;
  features.split(parts, ',');
  return llvm::any_of(parts, [&](StringRef part) {
    return part.consume_front("+") && part == feature;
  });
}

void deriveFlags(TargetInfo &target) {
  auto has = [&](StringRef f) { return hasFeature(target.features, f); };
  target.avx2 = has("avx2");
  target.fma = has("fma");
  target.f16c = has("f16c");
  target.avx512 =
      has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
  target.avx512Vnni = target.avx512 && has("avx512vnni");
  target.avxVnni = target.avx2 && has("avxvnni");
  target.avxVnniInt8 = target.avx2 && has("avxvnniint8");
  target.avx512Bf16 = target.avx512 && has("avx512bf16");
  target.avx512Fp16 = target.avx512 && has("avx512fp16");
  target.amxInt8 = has("amx-tile") && has("amx-int8");
  target.amxBf16 = has("amx-tile") && has("amx-bf16");
  target.vectorBytes = target.avx512 ? 64 : target.avx2 ? 32 : 16;
}

/// The features of this machine, in a fixed order, so that equal machines have
/// equal cache keys.
std::string hostFeatures() {
  std::vector<std::string> parts;
  for (const auto &feature : sys::getHostCPUFeatures()) {
    StringRef name = feature.first();
    // AMX registers count only if the system gives them to this process.
    bool has =
        feature.second && (!name.starts_with("amx-") || machine::cpuHas(name));
    parts.push_back((has ? "+" : "-") + name.str());
  }
  // Kernels use full-width registers wherever they exist.
  parts.push_back("-prefer-256-bit");
  std::sort(parts.begin(), parts.end());
  return llvm::join(parts, ",");
}

/// The names of all targets, for a message.
std::string targetNames() {
  std::string names = "host, native";
  for (const FixedTarget &target : fixedTargets)
    names += std::string(", ") + target.name;
  return names;
}

/// The rate of a multiply that the model of the table lacks, as a multiple of
/// FmaF32's.
double usualRate(Multiply multiply) {
  switch (multiply) {
  case Multiply::FmaF32:
  case Multiply::DotBF16:
    return 1;
  case Multiply::FmaF16:
    return 2;
  case Multiply::DotInt8:
    return 4;
  case Multiply::AmxBF16:
    return 16;
  case Multiply::AmxInt8:
    return 32;
  }
  return 0;
}

} // namespace

Expected<TargetInfo> TargetInfo::get(StringRef name) {
  TargetInfo target;
  target.name = name.str();
  target.triple = linuxTriple;
  if (name == "host" || name == "native") {
    target.cpu = sys::getHostCPUName().str();
    target.features = hostFeatures();
    target.model = machine::hostCpuModel();
    deriveFlags(target);
    return target;
  }
  const auto *fixed = llvm::find_if(
      fixedTargets, [&](const FixedTarget &t) { return name == t.name; });
  if (fixed == std::end(fixedTargets))
    return createStringError("unknown target '%s': it must be one of %s",
                             target.name.c_str(), targetNames().c_str());
  target.cpu = fixed->cpu;
  target.features = std::string(fixed->level) + fixed->more;
  target.model = *machine::findCpuModel(fixed->model);
  deriveFlags(target);
  return target;
}

bool TargetInfo::has(Multiply multiply) const {
  switch (multiply) {
  case Multiply::FmaF32:
    return fma;
  case Multiply::FmaF16:
    return avx512Fp16;
  case Multiply::DotBF16:
    return avx512Bf16;
  case Multiply::DotInt8:
    return avx512Vnni || avxVnni;
  case Multiply::AmxBF16:
    return amxBf16;
  case Multiply::AmxInt8:
    return amxInt8;
  }
  return false;
}

double TargetInfo::rate(Multiply multiply) const {
  if (!has(multiply))
    return 0;
  double known = model.rate(multiply);
  return known ? known : model.rate(Multiply::FmaF32) * usualRate(multiply);
}

bool TargetInfo::runsHere() const {
  StringMap<bool> host = sys::getHostCPUFeatures();
  SmallVector<StringRef> parts;
  StringRef(features).split(parts, ',');
  // LLVM only sees that the processor has AMX. The question asks the system to
  // give this process the registers.
  return llvm::all_of(parts, [&](StringRef part) {
    return !part.consume_front("+") ||
           (host.lookup(part) &&
            (!part.starts_with("amx-") || machine::cpuHas(part)));
  });
}

Expected<std::unique_ptr<TargetMachine>>
TargetInfo::createTargetMachine() const {
  static std::once_flag once;
  std::call_once(once, [] {
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
    InitializeNativeTargetAsmParser();
  });
  std::string error;
  const Target *llvmTarget = TargetRegistry::lookupTarget(triple, error);
  if (!llvmTarget)
    return createStringError("LLVM has no target '%s': %s", triple.c_str(),
                             error.c_str());
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Standard;
  std::unique_ptr<TargetMachine> machine(llvmTarget->createTargetMachine(
      triple, cpu, features, options, Reloc::PIC_, std::nullopt,
      CodeGenOptLevel::Default));
  if (!machine)
    return createStringError("LLVM can make no code for '%s'", cpu.c_str());
  return machine;
}

} // namespace native
} // namespace anabranch
