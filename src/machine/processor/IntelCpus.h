//===- IntelCpus.h - rates and caches of Intel's cores ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Where the figures are from:
//
// - Multiplies: lanes times instructions in a cycle, as uops.info has them for
//   VFMADD231PS, VFMADD231PH and VPDPBUSD of the widest registers. TDPBF16PS
//   and TDPBSSD: Intel's Optimization Reference Manual (248966), 16 cycles for
//   16 x 16 x 32 or 16 x 16 x 64 multiply-adds.
// - VDPBF16PS: measured on a Xeon of the row sapphirerapids, half of
//   VFMADD231PS. That of cooperlake is an estimate.
// - Loads from L1, sizes of L1 and L2: the manual's tables of caches.
// - Loads from L2 and L3: measured on the same Xeon (machine-peaks, which `make
//   bench-kernels` runs: 173 and 30 GB/s at 3.6 GHz). The other rows are
//   estimates by the width of their vectors.
// - Size of L3: that of a common model. hostCpuModel() has the machine's own.

#ifndef ANABRANCH_MACHINE_PROCESSOR_INTELCPUS_H
#define ANABRANCH_MACHINE_PROCESSOR_INTELCPUS_H

#include "machine/processor/CpuTable.h"

namespace anabranch::machine {

// clang-format off
inline constexpr CpuRow intelCpus[] = {
    // name, {FmaF32, FmaF16, DotBF16, DotInt8, TileBF16, TileInt8}, ports,
    // bytes a cycle from L1, L2 and L3, bytes of L1, L2 and L3; CPUID's numbers
    {{"haswell", {16}, 2, 64, 32, 8, 32 * KiB, 256 * KiB, 8 * MiB},
     {{6, 0x3c, 0x3d}, {6, 0x3f, 0x3f}, {6, 0x45, 0x47}, {6, 0x4f, 0x4f}, {6, 0x56, 0x56}}},
    {{"skylake", {16}, 2, 64, 32, 8, 32 * KiB, 256 * KiB, 8 * MiB},
     {{6, 0x4e, 0x4e}, {6, 0x5e, 0x5e}, {6, 0x8e, 0x8e}, {6, 0x9e, 0x9e}, {6, 0xa5, 0xa6}}},
    // Three generations share the number 0x55. A Skylake counts as the Cascade
    // Lake that it resembles but for VPDPBUSD, which it does not offer.
    {{"skylake-avx512", {32}, 2, 128, 48, 8, 32 * KiB, MiB, 24 * MiB}},
    {{"cascadelake", {32, 0, 0, 128}, 2, 128, 48, 8, 32 * KiB, MiB, 32 * MiB},
     {{6, 0x55, 0x55}}},
    {{"cooperlake", {32, 0, 64, 128}, 2, 128, 48, 8, 32 * KiB, MiB, 32 * MiB},
     {{6, 0x55, 0x55}}},
    {{"icelake-client", {16, 0, 0, 64}, 1, 128, 48, 8, 48 * KiB, 512 * KiB, 8 * MiB},
     {{6, 0x7d, 0x7e}, {6, 0x8c, 0x8d}, {6, 0xa7, 0xa7}}},
    {{"icelake-server", {32, 0, 0, 128}, 2, 128, 48, 8, 48 * KiB, 1280 * KiB, 48 * MiB},
     {{6, 0x6a, 0x6a}, {6, 0x6c, 0x6c}}},
    {{"alderlake", {16, 0, 0, 64}, 2, 96, 48, 8, 48 * KiB, 1280 * KiB, 24 * MiB},
     {{6, 0x97, 0x97}, {6, 0x9a, 0x9a}}},
    {{"sierraforest", {8, 0, 0, 32}, 2, 32, 16, 8, 32 * KiB, MiB, 96 * MiB},
     {{6, 0xaf, 0xaf}, {6, 0xb6, 0xb6}, {6, 0xbe, 0xbe}, {6, 0xdd, 0xdd}}},
    {{"sapphirerapids", {32, 64, 16, 128, 512, 1024}, 2, 128, 48, 8, 48 * KiB, 2 * MiB, 64 * MiB},
     {{6, 0x8f, 0x8f}, {6, 0xcf, 0xcf}, {6, 0xad, 0xae}}},
};
// clang-format on

inline constexpr CpuMaker intel = {{"GenuineIntel"},
                                   std::begin(intelCpus),
                                   std::end(intelCpus),
                                   "sapphirerapids",
                                   "alderlake"};

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_PROCESSOR_INTELCPUS_H
