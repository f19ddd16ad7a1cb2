//===- ArmFeatures.cpp - features of 64-bit Arm, and the host's -----------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/processor/ArmFeatures.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace anabranch::machine {
namespace {

enum Word { First, Second };

struct ArmRow {
  const char *name; ///< LLVM's
  Word word;
  int bit; ///< as Linux documents it, in elf_hwcaps.rst of arm64
};

constexpr ArmRow armRows[] = {
    {"aes", First, 4}, // LLVM's name also means the carry-less product
    {"bf16", Second, 14},    {"complxnum", First, 14}, {"crc", First, 7},
    {"dotprod", First, 20},  {"fp-armv8", First, 0},   {"fp16fml", First, 23},
    {"fullfp16", First, 10}, {"i8mm", Second, 13},     {"jsconv", First, 13},
    {"lse", First, 8},       {"neon", First, 1},       {"rcpc", First, 15},
    {"rdm", First, 12},      {"sha2", First, 6},       {"sha3", First, 17},
    {"sve", First, 22},      {"sve2", Second, 1},
};

const ArmRow *findArmRow(std::string_view feature) {
  auto row = std::find_if(std::begin(armRows), std::end(armRows),
                          [&](const ArmRow &r) { return feature == r.name; });
  return row == std::end(armRows) ? nullptr : row;
}

} // namespace

ArmCapabilities ArmCapabilities::host() {
#if defined(__aarch64__)
  return {::getauxval(AT_HWCAP), ::getauxval(AT_HWCAP2)};
#else
  return {};
#endif
}

bool ArmCapabilities::has(std::string_view feature) const {
  const ArmRow *row = findArmRow(feature);
  return row && ((row->word == First ? first : second) >> row->bit & 1) != 0;
}

std::vector<std::string_view> armFeatures() {
  std::vector<std::string_view> names;
  for (const ArmRow &row : armRows)
    names.push_back(row.name);
  return names;
}

bool isArmFeature(std::string_view feature) { return findArmRow(feature); }

ArmIdentity ArmIdentity::read(const std::string &midr) {
  constexpr int implementerBit = 24, partBit = 4;
  constexpr unsigned implementers = 0xff, parts = 0xfff;
  auto number = std::strtoull(midr.c_str(), nullptr, 16);
  return {static_cast<unsigned>(number >> implementerBit) & implementers,
          static_cast<unsigned>(number >> partBit) & parts};
}

ArmIdentity ArmIdentity::readCpuInfo(const std::string &text) {
  auto number = [&](const char *key) -> unsigned {
    size_t at = text.find(key);
    size_t colon = text.find(':', at);
    return at == std::string::npos || colon == std::string::npos
               ? 0
               : std::strtoul(text.c_str() + colon + 1, nullptr, 16);
  };
  return {number("CPU implementer"), number("CPU part")};
}

ArmIdentity ArmIdentity::host(const std::string &root) {
  std::ifstream identification(
      root + "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1");
  std::string midr;
  identification >> midr;
  ArmIdentity core = read(midr);
  if (core.implementer != 0)
    return core;
  std::ifstream cores(root + "/proc/cpuinfo");
  return readCpuInfo({std::istreambuf_iterator<char>(cores), {}});
}

} // namespace anabranch::machine
