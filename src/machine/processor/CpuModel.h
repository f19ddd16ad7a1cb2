//===- CpuModel.h - what a core of a CPU does in a cycle --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A feature bit says that an instruction exists, not that it is fast. The
// tables of models have the rates by which the compiler chooses between
// instructions: IntelCpus.h, AmdCpus.h and GenericCpus.h.

#ifndef ANABRANCH_MACHINE_PROCESSOR_CPUMODEL_H
#define ANABRANCH_MACHINE_PROCESSOR_CPUMODEL_H

#include "machine/processor/MemoryUnits.h"

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>

namespace anabranch::machine {

/// Instructions that multiply and add, on the widest registers.
enum class Multiply {
  FmaF32,  ///< vfmadd231ps
  FmaF16,  ///< vfmadd231ph, of AVX512-FP16
  DotBF16, ///< vdpbf16ps, sums of two products
  DotInt8, ///< vpdpbusd, sums of four products
  AmxBF16, ///< tdpbf16ps
  AmxInt8  ///< tdpbssd
};
constexpr int multiplyCount = 6;
using Multiplies = std::bitset<multiplyCount>;

/// What CPUID says of a CPU.
struct CpuIdentity {
  std::string maker;
  unsigned family = 0, model = 0;
  bool hasAvx512 = false;
  Multiplies multiplies; ///< those that the CPU offers
};

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

  constexpr double rate(Multiply multiply) const {
    return rates[int(multiply)];
  }
};

/// Bytes of the cache of data at this level, from the files of Linux in
/// `folder` (one folder for each cache, "size" in KiB: "32768K"). Zero if they
/// do not tell.
int64_t readCacheBytes(const std::string &folder, int level);

/// The model of this name; null if there is none.
const CpuModel *findCpuModel(std::string_view name);

/// The model of a CPU. Virtual machines may report wrong numbers: if the model
/// found lacks a multiply that the CPU offers, it is not the CPU's. Such a CPU,
/// and one that the table lacks, counts as the newest model of its maker with
/// the same vectors.
const CpuModel &cpuModelOf(const CpuIdentity &cpu);

/// The model of this machine, with the sizes of this machine's caches.
const CpuModel &hostCpuModel();

/// The name of a multiply, for people; and whether this CPU and its operating
/// system offer it.
const char *nameOf(Multiply multiply);
bool cpuHas(Multiply multiply);

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_PROCESSOR_CPUMODEL_H
