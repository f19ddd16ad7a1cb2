//===- CpuModels.cpp - the models that are known, and the host's ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/processor/CpuModels.h"

#include "machine/processor/AmdCpus.h"
#include "machine/processor/ArmCpus.h"
#include "machine/processor/ArmFeatures.h"
#include "machine/processor/Caches.h"
#include "machine/processor/CpuFeatures.h"
#include "machine/processor/GenericCpus.h"
#include "machine/processor/IntelCpus.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace anabranch::machine {

namespace {

/// A CPU of another maker counts as one of the last table.
constexpr const CpuMaker *makers[] = {&intel, &amd, &arm, &anyMaker};

/// The features of which a multiply needs one.
struct MultiplyNeeds {
  const char *name, *features[3];
};

constexpr MultiplyNeeds needs[multiplyCount] = {
    {"f32 FMA", {"fma", "neon"}},
    {"f16 FMA", {"avx512fp16", "fullfp16"}},
    {"bf16 dot products", {"avx512bf16", "bf16"}},
    {"int8 dot products", {"avx512vnni", "avxvnni", "dotprod"}},
    {"tdpbf16ps", {"amx-bf16"}},
    {"tdpbssd", {"amx-int8"}},
};

bool hasAll(const CpuModel &model, const Multiplies &multiplies) {
  for (int i = 0; i < multiplyCount; ++i)
    if (multiplies[i] && !model.rates[i])
      return false;
  return true;
}

bool hasNumbers(const CpuRow &row, const CpuIdentity &cpu) {
  return std::any_of(std::begin(row.numbers), std::end(row.numbers),
                     [&](const CpuNumbers &numbers) {
                       return numbers.family && numbers.family == cpu.family &&
                              numbers.first <= cpu.model &&
                              cpu.model <= numbers.last;
                     });
}

const CpuMaker &makerOf(const CpuIdentity &cpu) {
  for (const CpuMaker *maker : makers)
    for (std::string_view name : maker->names)
      if (!name.empty() && cpu.maker == name)
        return *maker;
  return anyMaker;
}

CpuIdentity readIdentity() {
  CpuIdentity cpu;
  cpu.hasExtensions = cpuHas("avx512f");
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
#elif defined(__aarch64__)
  ArmIdentity core = ArmIdentity::host();
  cpu.hasExtensions = cpuHas(Multiply::DotBF16);
  cpu.maker = arm.names[0];
  cpu.family = core.implementer;
  cpu.model = core.part;
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
  setIfPositive(model.l3Bytes, ::sysconf(_SC_LEVEL3_CACHE_SIZE));
  // glibc knows no sizes of 64-bit Arm, and of some AMD processors it reads the
  // third caches of the whole package.
  setCaches(model, cachesOf(0));
  return model;
}

} // namespace

void setCaches(CpuModel &model, const std::vector<Cache> &caches) {
  int64_t *const sizes[] = {&model.l1Bytes, &model.l2Bytes, &model.l3Bytes};
  for (const Cache &cache : caches) {
    if (1 <= cache.level && cache.level <= 3)
      setIfPositive(*sizes[cache.level - 1], cache.bytes);
    setIfPositive(model.lineBytes, cache.lineBytes);
  }
}

const CpuModel *findCpuModel(std::string_view name) {
  for (const CpuMaker *maker : makers)
    for (const CpuRow *row = maker->begin; row != maker->end; ++row)
      if (row->model.name == name)
        return &row->model;
  return nullptr;
}

const CpuModel &cpuModelOf(const CpuIdentity &cpu) {
  const CpuMaker &maker = makerOf(cpu);
  const CpuRow *row =
      std::find_if(maker.begin, maker.end, [&](const CpuRow &candidate) {
        return hasNumbers(candidate, cpu) &&
               hasAll(candidate.model, cpu.multiplies);
      });
  if (row != maker.end)
    return row->model;
  return *findCpuModel(cpu.hasExtensions ? maker.newestExtended : maker.newest);
}

const CpuModel &hostCpuModel() {
  static const CpuModel model = readHostModel();
  return model;
}

const char *nameOf(Multiply multiply) { return needs[int(multiply)].name; }

bool cpuHas(Multiply multiply) {
  const auto &features = needs[int(multiply)].features;
  return std::any_of(
      std::begin(features), std::end(features),
      [](const char *feature) { return feature && cpuHas(feature); });
}

} // namespace anabranch::machine
