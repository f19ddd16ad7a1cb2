//===- ArmCpus.h - rates and caches of 64-bit Arm cores ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Where the figures are from:
//
// - Multiplies of Neoverse cores: lanes times instructions in a cycle, which
//   `llvm-mca-19 -mcpu=NAME -instruction-tables` prints for fmla, bfdot, sdot
//   and usdot of 128 bits (RThroughput). Arm's Software Optimization Guides of
//   Neoverse N1, V1 and V2 have the same.
// - Apple's core: four units of 128 bits, as Dougall Johnson measured them.
// - Loads from L1: load units times 16 bytes, by the same guides. Loads from L2
//   and L3, and the size of L3, are estimates: no such machine was measured.
// - Sizes of L1 and L2: Arm's Technical Reference Manuals. hostCpuModel() has
//   the machine's own.
// - Lines: 64 bytes on Arm's cores by the same manuals; 128 on Apple's, as its
//   hw.cachelinesize says. Pages: Linux has them of 4 KiB (Debian, Ubuntu,
//   Amazon Linux) or of 64 KiB (RHEL 8 and the kernel for Grace), on Apple's
//   cores of 16 KiB. pageBytes is the distance at which prefetches of a core
//   stop, 4 KiB for Arm's; what is mapped asks the system or keeps to 64 KiB.
//
// The numbers are those of the register MIDR_EL1: who implemented the core, and
// its part.

#ifndef ANABRANCH_MACHINE_PROCESSOR_ARMCPUS_H
#define ANABRANCH_MACHINE_PROCESSOR_ARMCPUS_H

#include "machine/processor/CpuTable.h"

namespace anabranch::machine {

// clang-format off
inline constexpr CpuRow armCpus[] = {
    // name, {FmaF32, FmaF16, DotBF16, DotInt8}, ports,
    // bytes a cycle from L1, L2 and L3, bytes of L1, L2 and L3; MIDR's numbers
    {{"aarch64", {8, 16, 0, 32}, 2, 32, 32, 16, 64 * KiB, 512 * KiB, 8 * MiB}},
    {{"neoverse-n1", {8, 16, 0, 32}, 2, 32, 32, 16, 64 * KiB, MiB, 32 * MiB},
     {{0x41, 0xd0c, 0xd0c}}},
    {{"neoverse-v1", {16, 32, 32, 64}, 4, 48, 32, 16, 64 * KiB, MiB, 32 * MiB},
     {{0x41, 0xd40, 0xd40}}},
    {{"neoverse-v2", {16, 32, 32, 64}, 4, 48, 32, 16, 64 * KiB, MiB, 32 * MiB},
     {{0x41, 0xd4f, 0xd4f}}},
    {{"apple-m1", {16, 32, 0, 64}, 4, 48, 32, 16, 128 * KiB, 12 * MiB, 24 * MiB,
      128, 16 * KiB},
     {{0x61, 0x020, 0x025}, {0x61, 0x028, 0x029}}},
};
// clang-format on

/// Every core that says its implementer and part counts as one of this table.
inline constexpr CpuMaker arm = {
    {"Arm"}, std::begin(armCpus), std::end(armCpus), "neoverse-v2", "aarch64"};

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_PROCESSOR_ARMCPUS_H
