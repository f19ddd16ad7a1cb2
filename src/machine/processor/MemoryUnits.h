//===- MemoryUnits.h - in which pieces memory moves -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_MACHINE_PROCESSOR_MEMORYUNITS_H
#define ANABRANCH_MACHINE_PROCESSOR_MEMORYUNITS_H

#include <cstdint>

namespace anabranch::machine {

inline constexpr int64_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;

/// A cache line, the unit in which cores load, prefetch and share memory. Data
/// that several cores write starts at a line of its own.
inline constexpr int64_t lineBytes = 64;

/// A page, at whose end a processor's own prefetch stops; and a huge page, with
/// which one entry of the TLB reaches further.
inline constexpr int64_t pageBytes = 4 * KiB, hugePageBytes = 2 * MiB;

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_PROCESSOR_MEMORYUNITS_H
