//===- CpuFeatures.cpp - what this CPU can do -----------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/processor/CpuFeatures.h"

#include "machine/processor/ArmFeatures.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace anabranch::machine {

namespace {

/// The leaves of CPUID that list features.
enum Leaf : unsigned { Basic = 1, Structured = 7, Extended = 0x80000001 };

enum Register { EAX, EBX, ECX, EDX };

/// The state that the operating system must save for a feature, as bits of
/// XCR0.
enum State : uint64_t { NoState = 0, Ymm = 0x6, Zmm = 0xe6, Tmm = 0x60000 };

struct Row {
  const char *name;
  Leaf leaf;
  unsigned subleaf;
  Register reg;
  int bit;
  State state;
};

constexpr Row rows[] = {
    {"64bit", Extended, 0, EDX, 29, NoState},
    {"adx", Structured, 0, EBX, 19, NoState},
    {"aes", Basic, 0, ECX, 25, NoState},
    {"amx-bf16", Structured, 0, EDX, 22, Tmm},
    {"amx-fp16", Structured, 1, EAX, 21, Tmm},
    {"amx-int8", Structured, 0, EDX, 25, Tmm},
    {"amx-tile", Structured, 0, EDX, 24, Tmm},
    {"avx", Basic, 0, ECX, 28, Ymm},
    {"avx2", Structured, 0, EBX, 5, Ymm},
    {"avx512bf16", Structured, 1, EAX, 5, Zmm},
    {"avx512bitalg", Structured, 0, ECX, 12, Zmm},
    {"avx512bw", Structured, 0, EBX, 30, Zmm},
    {"avx512cd", Structured, 0, EBX, 28, Zmm},
    {"avx512dq", Structured, 0, EBX, 17, Zmm},
    {"avx512f", Structured, 0, EBX, 16, Zmm},
    {"avx512fp16", Structured, 0, EDX, 23, Zmm},
    {"avx512ifma", Structured, 0, EBX, 21, Zmm},
    {"avx512vbmi", Structured, 0, ECX, 1, Zmm},
    {"avx512vbmi2", Structured, 0, ECX, 6, Zmm},
    {"avx512vl", Structured, 0, EBX, 31, Zmm},
    {"avx512vnni", Structured, 0, ECX, 11, Zmm},
    {"avx512vp2intersect", Structured, 0, EDX, 8, Zmm},
    {"avx512vpopcntdq", Structured, 0, ECX, 14, Zmm},
    {"avxifma", Structured, 1, EAX, 23, Ymm},
    {"avxneconvert", Structured, 1, EDX, 5, Ymm},
    {"avxvnni", Structured, 1, EAX, 4, Ymm},
    {"avxvnniint16", Structured, 1, EDX, 10, Ymm},
    {"avxvnniint8", Structured, 1, EDX, 4, Ymm},
    {"bmi", Structured, 0, EBX, 3, NoState},
    {"bmi2", Structured, 0, EBX, 8, NoState},
    {"cldemote", Structured, 0, ECX, 25, NoState},
    {"clflushopt", Structured, 0, EBX, 23, NoState},
    {"clwb", Structured, 0, EBX, 24, NoState},
    {"cmov", Basic, 0, EDX, 15, NoState},
    {"crc32", Basic, 0, ECX, 20, NoState},
    {"cx16", Basic, 0, ECX, 13, NoState},
    {"cx8", Basic, 0, EDX, 8, NoState},
    {"f16c", Basic, 0, ECX, 29, Ymm},
    {"fma", Basic, 0, ECX, 12, Ymm},
    {"fsgsbase", Structured, 0, EBX, 0, NoState},
    {"fxsr", Basic, 0, EDX, 24, NoState},
    {"gfni", Structured, 0, ECX, 8, NoState},
    {"lzcnt", Extended, 0, ECX, 5, NoState},
    {"mmx", Basic, 0, EDX, 23, NoState},
    {"movbe", Basic, 0, ECX, 22, NoState},
    {"pclmul", Basic, 0, ECX, 1, NoState},
    {"popcnt", Basic, 0, ECX, 23, NoState},
    {"prfchw", Extended, 0, ECX, 8, NoState},
    {"rdrnd", Basic, 0, ECX, 30, NoState},
    {"rdseed", Structured, 0, EBX, 18, NoState},
    {"sahf", Extended, 0, ECX, 0, NoState},
    {"sha", Structured, 0, EBX, 29, NoState},
    {"sse", Basic, 0, EDX, 25, NoState},
    {"sse2", Basic, 0, EDX, 26, NoState},
    {"sse3", Basic, 0, ECX, 0, NoState},
    {"sse4.1", Basic, 0, ECX, 19, NoState},
    {"sse4.2", Basic, 0, ECX, 20, NoState},
    {"ssse3", Basic, 0, ECX, 9, NoState},
    {"vaes", Structured, 0, ECX, 9, Ymm},
    {"vpclmulqdq", Structured, 0, ECX, 10, Ymm},
    {"x87", Basic, 0, EDX, 0, NoState},
    {"xsave", Basic, 0, ECX, 26, NoState},
};

const Row *findRow(std::string_view feature) {
  auto row = std::find_if(std::begin(rows), std::end(rows),
                          [&](const Row &r) { return feature == r.name; });
  return row == std::end(rows) ? nullptr : row;
}

#if defined(__x86_64__)
uint64_t savedState() {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 27)))
    return 0;
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}

/// Asks Linux for the AMX registers, which it gives only to processes that ask.
/// It kills a process that uses them without having asked.
bool mayUseAmx() {
  constexpr long requestPermission = 0x1023, tileData = 18;
  static const bool granted =
      ::syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
  return granted;
}
#endif

} // namespace

bool isFeature(std::string_view feature) {
  return findRow(feature) || isArmFeature(feature);
}

#if defined(__x86_64__)

const char *hostCpu() { return "x86-64"; }

bool cpuHas(std::string_view feature) {
  const Row *row = findRow(feature);
  if (!row)
    return false;
  unsigned regs[4];
  if (!__get_cpuid_count(row->leaf, row->subleaf, &regs[EAX], &regs[EBX],
                         &regs[ECX], &regs[EDX]))
    return false;
  static const uint64_t saved = savedState();
  return (regs[row->reg] >> row->bit & 1) &&
         (saved & row->state) == row->state &&
         (row->state != Tmm || mayUseAmx());
}

bool hasInvariantCounter() {
  constexpr unsigned powerManagement = 0x80000007, invariantCounter = 1U << 8;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(powerManagement, &a, &b, &c, &d) != 0 &&
         (d & invariantCounter) != 0;
}

#else

#if defined(__aarch64__)
const char *hostCpu() { return "aarch64"; }
#else
const char *hostCpu() { return "unknown"; }
#endif

bool hasInvariantCounter() { return false; }

bool cpuHas(std::string_view feature) {
  static const ArmCapabilities host = ArmCapabilities::host();
  return host.has(feature);
}

#endif

int vectorBytes() {
  if (!cpuHas("fma"))
    return 16;
  return cpuHas("avx512f") ? 64 : cpuHas("avx2") ? 32 : 16;
}

std::vector<std::string>
missingFeatures(const std::vector<std::string> &features) {
  std::vector<std::string> missing;
  for (const std::string &feature : features)
    if (!cpuHas(feature))
      missing.push_back(feature);
  return missing;
}

} // namespace anabranch::machine
