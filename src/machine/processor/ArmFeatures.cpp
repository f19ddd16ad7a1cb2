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

bool isArmFeature(std::string_view feature) { return findArmRow(feature); }

ArmIdentity ArmIdentity::read(const std::string &midr) {
  constexpr int implementerBit = 24, partBit = 4;
  constexpr unsigned implementers = 0xff, parts = 0xfff;
  auto number = std::strtoull(midr.c_str(), nullptr, 16);
  return {static_cast<unsigned>(number >> implementerBit) & implementers,
          static_cast<unsigned>(number >> partBit) & parts};
}

ArmIdentity ArmIdentity::host() {
  std::ifstream file(
      "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1");
  std::string midr;
  file >> midr;
  return read(midr);
}

} // namespace anabranch::machine
