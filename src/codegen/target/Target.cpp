//===- Target.cpp - the processor that kernels are made for ---------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/target/Target.h"

#include "package/targets/CpuFeatures.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/TargetParser/Host.h"

#include <algorithm>
#include <mutex>
#include <unistd.h>
#include <vector>

using namespace llvm;

namespace anabranch {
namespace codegen {
namespace {

constexpr const char *linuxTriple = "x86_64-unknown-linux-gnu";

constexpr const char *avx2Features =
    "+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt,+movbe";

constexpr const char *avx512Features =
    "+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt,+movbe,"
    "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512cd,-prefer-256-bit";

/// The targets that compile the same code everywhere. What one has beyond its
/// level is appended to the level's features.
struct FixedTarget {
  const char *name, *cpu, *level, *more;
};

constexpr const char *tileFeatures =
    ",+avx512vnni,+avx512bf16,+amx-tile,+amx-int8,+amx-bf16";

constexpr FixedTarget fixedTargets[] = {
    {"avx2", "x86-64-v3", avx2Features, ""},
    {"x86-64-v3", "x86-64-v3", avx2Features, ""},
    {"avxvnni", "x86-64-v3", avx2Features, ",+avxvnni"},
    {"avxvnniint8", "x86-64-v3", avx2Features, ",+avxvnni,+avxvnniint8"},
    {"avx512", "x86-64-v4", avx512Features, ""},
    {"x86-64-v4", "x86-64-v4", avx512Features, ""},
    {"avx512vnni", "x86-64-v4", avx512Features, ",+avx512vnni"},
    {"avx512bf16", "x86-64-v4", avx512Features, ",+avx512bf16"},
    {"amx", "x86-64-v4", avx512Features, tileFeatures},
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

/// Features of this machine, in a fixed order so that equal machines give equal
/// cache keys.
std::string hostFeatures() {
  std::vector<std::string> parts;
  for (const auto &feature : sys::getHostCPUFeatures()) {
    StringRef name = feature.first();
    // Tiles are there if the system lends them to this process.
    bool has =
        feature.second && (!name.starts_with("amx-") || package::cpuHas(name));
    parts.push_back((has ? "+" : "-") + name.str());
  }
  // The kernels are written for full-width registers wherever they exist.
  parts.push_back("-prefer-256-bit");
  std::sort(parts.begin(), parts.end());
  return llvm::join(parts, ",");
}

int64_t cacheBytes(int name, int64_t fallback) {
  long bytes = ::sysconf(name);
  return bytes > 0 ? bytes : fallback;
}

} // namespace

Expected<TargetInfo> TargetInfo::get(StringRef name) {
  TargetInfo target;
  target.name = name.str();
  target.triple = linuxTriple;
  if (name == "host" || name == "native") {
    target.cpu = sys::getHostCPUName().str();
    target.features = hostFeatures();
    target.l1Bytes = cacheBytes(_SC_LEVEL1_DCACHE_SIZE, target.l1Bytes);
    target.l2Bytes = cacheBytes(_SC_LEVEL2_CACHE_SIZE, target.l2Bytes);
    deriveFlags(target);
    return target;
  }
  const auto *fixed = llvm::find_if(
      fixedTargets, [&](const FixedTarget &t) { return name == t.name; });
  if (fixed == std::end(fixedTargets))
    return createStringError(
        "unknown target '%s': it must be host (or native), "
        "avx2 (x86-64-v3), avxvnni, avxvnniint8, avx512 (x86-64-v4), "
        "avx512vnni, avx512bf16 or amx",
        target.name.c_str());
  target.cpu = fixed->cpu;
  target.features = std::string(fixed->level) + fixed->more;
  deriveFlags(target);
  return target;
}

bool TargetInfo::runsHere() const {
  StringMap<bool> host = sys::getHostCPUFeatures();
  SmallVector<StringRef> parts;
  StringRef(features).split(parts, ',');
  // LLVM sees that the processor has tiles; only asking for them lends them to
  // this process.
  return llvm::all_of(parts, [&](StringRef part) {
    return !part.consume_front("+") ||
           (host.lookup(part) &&
            (!part.starts_with("amx-") || package::cpuHas(part)));
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

} // namespace codegen
} // namespace anabranch
