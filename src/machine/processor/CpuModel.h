//===- CpuModel.h - what a core of a CPU does in a cycle --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A feature bit says that an instruction exists, not that it is fast. The
// tables of models have the rates by which the compiler chooses between
// instructions.

#ifndef ANABRANCH_MACHINE_PROCESSOR_CPUMODEL_H
#define ANABRANCH_MACHINE_PROCESSOR_CPUMODEL_H

#include "machine/processor/KernelCycles.h"
#include "machine/processor/MemoryUnits.h"

#include <cstdint>
#include <string_view>

namespace anabranch::machine {

/// Instructions that multiply and add, on the widest registers.
enum class Multiply {
  FmaF32,   ///< vfmadd231ps, fmla
  FmaF16,   ///< vfmadd231ph of AVX512-FP16, fmla
  DotBF16,  ///< vdpbf16ps, bfdot: sums of two products
  DotInt8,  ///< vpdpbusd, sdot, usdot: sums of four products
  TileBF16, ///< tdpbf16ps
  TileInt8  ///< tdpbssd
};
constexpr int multiplyCount = 6;

/// The rates and caches of one core. A rate is zero if no CPU of the model has
/// the instruction. A CPU may lack one that its model has: virtual machines
/// hide instructions.
struct CpuModel {
  std::string_view name; ///< as LLVM has it: "sapphirerapids"
  /// Multiply-adds in a cycle, by Multiply.
  double rates[multiplyCount];
  int fmaPorts; ///< how many FmaF32 start in one cycle
  /// Bytes loaded in a cycle from data in this cache.
  double l1Load, l2Load, l3Load;
  /// Sizes in bytes. Several cores share the last cache.
  int64_t l1Bytes, l2Bytes, l3Bytes;
  /// A cache line and a page, in bytes.
  int64_t lineBytes = machine::lineBytes, pageBytes = machine::pageBytes;
  KernelCycles cycles = {};

  constexpr double rate(Multiply multiply) const {
    return rates[int(multiply)];
  }
};

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_PROCESSOR_CPUMODEL_H
