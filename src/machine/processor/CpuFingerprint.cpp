//===- CpuFingerprint.cpp - which CPUs run the same code ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/processor/CpuFingerprint.h"

#include "machine/processor/ArmFeatures.h"

#include <cstdint>
#include <cstdio>
#include <unistd.h>
#include <utility>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace anabranch::machine {

namespace {

void append(std::string &line, unsigned long long number) {
  char text[24];
  (void)std::snprintf(text, sizeof text, "%llx ", number);
  line += text;
}

#if defined(__x86_64__)
/// A CPUID leaf, and which of its registers are the same on every core.
struct StableLeaf {
  unsigned leaf, subleaf;
  bool eax, ebx, ecx, edx;
};

constexpr StableLeaf stableLeaves[] = {
    {0, 0, false, true, true, true},  // vendor
    {1, 0, true, false, true, true},  // model; EBX holds the number of the core
    {7, 0, false, true, true, true},  // features
    {7, 1, true, false, false, true}, // more features
    {0x80000001, 0, false, false, true, true},
    {0x80000002, 0, true, true, true, true}, // name
    {0x80000003, 0, true, true, true, true},
    {0x80000004, 0, true, true, true, true},
};

void appendCpu(std::string &line) {
  for (const StableLeaf &leaf : stableLeaves) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(leaf.leaf, leaf.subleaf, &a, &b, &c, &d))
      continue;
    for (auto [wanted, value] :
         {std::pair{leaf.eax, a}, {leaf.ebx, b}, {leaf.ecx, c}, {leaf.edx, d}})
      if (wanted)
        append(line, value);
  }
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) && c & (1u << 27)) {
    unsigned low, high; // of the registers that the system saves
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    append(line, uint64_t(high) << 32 | low);
  }
}
#elif defined(__aarch64__)
void appendCpu(std::string &line) {
  ArmIdentity core = ArmIdentity::host();
  ArmCapabilities features = ArmCapabilities::host();
  for (uint64_t number : {uint64_t(core.implementer), uint64_t(core.part),
                          features.first, features.second})
    append(line, number);
}
#else
void appendCpu(std::string &line) { line += "unknown "; }
#endif

} // namespace

std::string cpuFingerprint() {
  std::string line;
  appendCpu(line);
  for (int name :
       {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE})
    append(line, static_cast<unsigned long long>(::sysconf(name)));
  line.pop_back();
  return line;
}

} // namespace anabranch::machine
