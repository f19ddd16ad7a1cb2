//===- AmdCpus.h - rates and caches of AMD's cores --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Where the figures are from:
//
// - Multiplies: lanes times instructions in a cycle, as uops.info has them for
//   VFMADD231PS, VDPBF16PS and VPDPBUSD of the widest registers.
// - Loads and sizes of L1 and L2: AMD's Software Optimization Guides, 55723
//   (Zen), 56305 (Zen 2), 56665 (Zen 3), 57647 (Zen 4) and 58455 (Zen 5).
// - Loads from L3: an estimate. machine-peaks, which `make bench-kernels` runs,
//   prints what this machine reads.
// - Size of L3: that of one core complex. hostCpuModel() has the machine's own.

#ifndef ANABRANCH_MACHINE_PROCESSOR_AMDCPUS_H
#define ANABRANCH_MACHINE_PROCESSOR_AMDCPUS_H

#include "machine/processor/CpuTable.h"

namespace anabranch::machine {

// clang-format off
inline constexpr CpuRow amdCpus[] = {
    // name, {FmaF32, FmaF16, DotBF16, DotInt8, TileBF16, TileInt8}, ports,
    // bytes a cycle from L1, L2 and L3, bytes of L1, L2 and L3; CPUID's numbers
    {{"znver1", {8}, 2, 32, 32, 16, 32 * KiB, 512 * KiB, 8 * MiB},
     {{0x17, 0x00, 0x2f}}},
    {{"znver2", {16}, 2, 64, 32, 16, 32 * KiB, 512 * KiB, 16 * MiB},
     {{0x17, 0x30, 0xff}}},
    {{"znver3", {16}, 2, 64, 32, 16, 32 * KiB, 512 * KiB, 32 * MiB},
     {{0x19, 0x00, 0x0f}, {0x19, 0x20, 0x5f}}},
    {{"znver4", {16, 0, 32, 64}, 1, 64, 32, 16, 32 * KiB, MiB, 32 * MiB},
     {{0x19, 0x10, 0x1f}, {0x19, 0x60, 0xff}}},
    // The Zen 5 with units as narrow as those of Zen 4.
    {{"znver5-mobile", {16, 0, 32, 64}, 1, 64, 32, 16, 48 * KiB, MiB, 16 * MiB},
     {{0x1a, 0x20, 0x2f}, {0x1a, 0x60, 0x6f}}},
    {{"znver5", {32, 0, 64, 128}, 2, 128, 64, 16, 48 * KiB, MiB, 32 * MiB},
     {{0x1a, 0x00, 0xff}}},
};
// clang-format on

inline constexpr CpuMaker amd = {{"AuthenticAMD", "HygonGenuine"},
                                 std::begin(amdCpus),
                                 std::end(amdCpus),
                                 "znver5",
                                 "znver3"};

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_PROCESSOR_AMDCPUS_H
