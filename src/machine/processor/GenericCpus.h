//===- GenericCpus.h - what to expect of a level of x86-64 ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The psABI of x86-64 names levels of features. Their rates are those that most
// CPUs of the level have in the other tables, their caches the smaller ones:
// code for a level runs on many CPUs, and a block that is too small costs less
// than one that leaves the cache.

#ifndef ANABRANCH_MACHINE_PROCESSOR_GENERICCPUS_H
#define ANABRANCH_MACHINE_PROCESSOR_GENERICCPUS_H

#include "machine/processor/CpuTable.h"

namespace anabranch::machine {

// clang-format off
inline constexpr CpuRow genericCpus[] = {
    // name, {FmaF32, FmaF16, DotBF16, DotInt8, TileBF16, TileInt8}, ports,
    // bytes a cycle from L1, L2 and L3, bytes of L1, L2 and L3
    {{"x86-64-v2", {4}, 1, 32, 16, 8, 32 * KiB, 256 * KiB, 8 * MiB}},
    {{"x86-64-v3", {16}, 2, 64, 32, 8, 32 * KiB, 512 * KiB, 8 * MiB}},
    {{"x86-64-v4", {32}, 2, 128, 48, 8, 32 * KiB, 512 * KiB, 32 * MiB}},
};
// clang-format on

inline constexpr CpuMaker anyMaker = {{},
                                      std::begin(genericCpus),
                                      std::end(genericCpus),
                                      "x86-64-v4",
                                      "x86-64-v3"};

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_PROCESSOR_GENERICCPUS_H
