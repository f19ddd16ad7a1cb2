//===- CpuModel.cpp - what a core of a CPU does in a cycle ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/processor/CpuModel.h"

#include "machine/processor/CpuFeatures.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace anabranch::machine {

namespace {

constexpr int64_t KiB = 1024, MiB = 1024 * KiB;

// clang-format off
const CpuModel models[] = {
    // name, {FmaF32, FmaF16, DotBF16, DotInt8, AmxBF16, AmxInt8}, ports,
    // bytes a cycle from L1, L2 and L3, bytes of L1, L2 and L3
    {"x86-64-v2", {4}, 1, 32, 16, 8, 32 * KiB, 256 * KiB, 8 * MiB},
    {"x86-64-v3", {16}, 2, 64, 32, 8, 32 * KiB, 512 * KiB, 8 * MiB},
    {"x86-64-v4", {32}, 2, 128, 48, 8, 32 * KiB, 512 * KiB, 32 * MiB},
    {"haswell", {16}, 2, 64, 32, 8, 32 * KiB, 256 * KiB, 8 * MiB},
    {"skylake", {16}, 2, 64, 32, 8, 32 * KiB, 256 * KiB, 8 * MiB},
    {"skylake-avx512", {32}, 2, 128, 48, 8, 32 * KiB, MiB, 24 * MiB},
    {"cascadelake", {32, 0, 0, 128}, 2, 128, 48, 8, 32 * KiB, MiB, 32 * MiB},
    {"cooperlake", {32, 0, 64, 128}, 2, 128, 48, 8, 32 * KiB, MiB, 32 * MiB},
    {"icelake-client", {16, 0, 0, 64}, 1, 128, 48, 8, 48 * KiB, 512 * KiB, 8 * MiB},
    {"icelake-server", {32, 0, 0, 128}, 2, 128, 48, 8, 48 * KiB, 1280 * KiB, 48 * MiB},
    {"alderlake", {16, 0, 0, 64}, 2, 96, 48, 8, 48 * KiB, 1280 * KiB, 24 * MiB},
    {"sierraforest", {8, 0, 0, 32}, 2, 32, 16, 8, 32 * KiB, MiB, 96 * MiB},
    {"sapphirerapids", {32, 64, 16, 128, 512, 1024}, 2, 128, 48, 8, 48 * KiB, 2 * MiB, 64 * MiB},
    {"znver1", {8}, 2, 32, 32, 16, 32 * KiB, 512 * KiB, 8 * MiB},
    {"znver2", {16}, 2, 64, 32, 16, 32 * KiB, 512 * KiB, 16 * MiB},
    {"znver3", {16}, 2, 64, 32, 16, 32 * KiB, 512 * KiB, 32 * MiB},
    {"znver4", {16, 0, 32, 64}, 1, 64, 32, 16, 32 * KiB, MiB, 32 * MiB},
    {"znver5", {32, 0, 64, 128}, 2, 128, 64, 16, 48 * KiB, MiB, 32 * MiB},
    // The Zen 5 with units as narrow as those of Zen 4.
    {"znver5-mobile", {16, 0, 32, 64}, 1, 64, 32, 16, 48 * KiB, MiB, 16 * MiB},
};
// clang-format on

/// CPUs of a maker's family, with models from `first` to `last`. If several
/// rows match a CPU, the first one counts whose model has the multiplies that
/// the CPU offers.
struct Row {
  unsigned family, first, last;
  const char *name;
};

constexpr Row intelRows[] = {
    {6, 0x3c, 0x3c, "haswell"},        {6, 0x3f, 0x3f, "haswell"},
    {6, 0x45, 0x46, "haswell"},        {6, 0x3d, 0x3d, "haswell"},
    {6, 0x47, 0x47, "haswell"},        {6, 0x4f, 0x4f, "haswell"},
    {6, 0x56, 0x56, "haswell"},        {6, 0x55, 0x55, "cascadelake"},
    {6, 0x55, 0x55, "cooperlake"},     {6, 0x4e, 0x4e, "skylake"},
    {6, 0x5e, 0x5e, "skylake"},        {6, 0x8e, 0x8e, "skylake"},
    {6, 0x9e, 0x9e, "skylake"},        {6, 0xa5, 0xa6, "skylake"},
    {6, 0x6a, 0x6a, "icelake-server"}, {6, 0x6c, 0x6c, "icelake-server"},
    {6, 0x7d, 0x7e, "icelake-client"}, {6, 0x8c, 0x8d, "icelake-client"},
    {6, 0xa7, 0xa7, "icelake-client"}, {6, 0x97, 0x97, "alderlake"},
    {6, 0x9a, 0x9a, "alderlake"},      {6, 0xaf, 0xaf, "sierraforest"},
    {6, 0xb6, 0xb6, "sierraforest"},   {6, 0xbe, 0xbe, "sierraforest"},
    {6, 0xdd, 0xdd, "sierraforest"},   {6, 0x8f, 0x8f, "sapphirerapids"},
    {6, 0xcf, 0xcf, "sapphirerapids"}, {6, 0xad, 0xae, "sapphirerapids"},
};

constexpr Row amdRows[] = {
    {0x17, 0x00, 0x2f, "znver1"},        {0x17, 0x30, 0xff, "znver2"},
    {0x19, 0x00, 0x0f, "znver3"},        {0x19, 0x20, 0x5f, "znver3"},
    {0x19, 0x10, 0x1f, "znver4"},        {0x19, 0x60, 0xff, "znver4"},
    {0x1a, 0x20, 0x2f, "znver5-mobile"}, {0x1a, 0x60, 0x6f, "znver5-mobile"},
    {0x1a, 0x00, 0xff, "znver5"},
};

/// The features of which a multiply needs one.
struct MultiplyNeeds {
  const char *name, *feature, *otherFeature;
};

constexpr MultiplyNeeds needs[multiplyCount] = {
    {"f32 FMA", "fma", ""},          {"f16 FMA", "avx512fp16", ""},
    {"vdpbf16ps", "avx512bf16", ""}, {"vpdpbusd", "avx512vnni", "avxvnni"},
    {"tdpbf16ps", "amx-bf16", ""},   {"tdpbssd", "amx-int8", ""},
};

bool hasAll(const CpuModel &model, const Multiplies &multiplies) {
  for (int i = 0; i < multiplyCount; ++i)
    if (multiplies[i] && !model.rates[i])
      return false;
  return true;
}

template <size_t size>
const CpuModel *findRow(const Row (&rows)[size], const CpuIdentity &cpu) {
  for (const Row &row : rows) {
    if (cpu.family != row.family || cpu.model < row.first ||
        cpu.model > row.last)
      continue;
    const CpuModel *model = findCpuModel(row.name);
    if (hasAll(*model, cpu.multiplies))
      return model;
  }
  return nullptr;
}

CpuIdentity readIdentity() {
  CpuIdentity cpu;
  cpu.hasAvx512 = cpuHas("avx512f");
  for (int i = 0; i < multiplyCount; ++i)
    cpu.multiplies[i] = cpuHas(Multiply(i));
#if defined(__x86_64__)
  unsigned a, b, c, d;
  if (!__get_cpuid(0, &a, &b, &c, &d))
    return cpu;
  char maker[12];
  std::memcpy(maker, &b, 4);
  std::memcpy(maker + 4, &d, 4);
  std::memcpy(maker + 8, &c, 4);
  cpu.maker.assign(maker, sizeof maker);
  if (!__get_cpuid(1, &a, &b, &c, &d))
    return cpu;
  cpu.family = (a >> 8 & 0xf) == 0xf ? 0xf + (a >> 20 & 0xff) : a >> 8 & 0xf;
  cpu.model = (a >> 4 & 0xf) | (a >> 12 & 0xf0);
#endif
  return cpu;
}

void setIfPositive(int64_t &bytes, int64_t found) {
  if (found > 0)
    bytes = found;
}

CpuModel readHostModel() {
  CpuModel model = cpuModelOf(readIdentity());
  setIfPositive(model.l1Bytes, ::sysconf(_SC_LEVEL1_DCACHE_SIZE));
  setIfPositive(model.l2Bytes, ::sysconf(_SC_LEVEL2_CACHE_SIZE));
  // Of some AMD processors glibc reads the third caches of the whole package.
  int64_t shared = readCacheBytes("/sys/devices/system/cpu/cpu0/cache", 3);
  setIfPositive(model.l3Bytes,
                shared ? shared : ::sysconf(_SC_LEVEL3_CACHE_SIZE));
  return model;
}

} // namespace

int64_t readCacheBytes(const std::string &folder, int level) {
  for (int index = 0;; ++index) {
    std::string cache = folder + "/index" + std::to_string(index) + "/";
    std::ifstream levelFile(cache + "level"), typeFile(cache + "type"),
        sizeFile(cache + "size");
    int found = 0;
    if (!(levelFile >> found))
      return 0;
    std::string type;
    int64_t kib = 0;
    typeFile >> type;
    if (found == level && type != "Instruction" && sizeFile >> kib)
      return kib * KiB;
  }
}

const CpuModel *findCpuModel(std::string_view name) {
  auto model = std::find_if(std::begin(models), std::end(models),
                            [&](const CpuModel &m) { return name == m.name; });
  return model == std::end(models) ? nullptr : model;
}

const CpuModel &cpuModelOf(const CpuIdentity &cpu) {
  const CpuModel *model = nullptr;
  const char *newest = cpu.hasAvx512 ? "x86-64-v4" : "x86-64-v3";
  if (cpu.maker == "GenuineIntel") {
    model = findRow(intelRows, cpu);
    newest = cpu.hasAvx512 ? "sapphirerapids" : "alderlake";
  } else if (cpu.maker == "AuthenticAMD" || cpu.maker == "HygonGenuine") {
    model = findRow(amdRows, cpu);
    newest = cpu.hasAvx512 ? "znver5" : "znver3";
  }
  return model ? *model : *findCpuModel(newest);
}

const CpuModel &hostCpuModel() {
  static const CpuModel model = readHostModel();
  return model;
}

const char *nameOf(Multiply multiply) { return needs[int(multiply)].name; }

bool cpuHas(Multiply multiply) {
  const MultiplyNeeds &need = needs[int(multiply)];
  return cpuHas(need.feature) || cpuHas(need.otherFeature);
}

} // namespace anabranch::machine
