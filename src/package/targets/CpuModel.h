//===- CpuModel.h - what a core of a CPU does in a cycle --------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A feature bit says that an instruction exists, not that it pays. The table of
// models has the rates that a choice between instructions goes by.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_PACKAGE_TARGETS_CPUMODEL_H
#define ANABRANCH_PACKAGE_TARGETS_CPUMODEL_H

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>

namespace anabranch::package {

/// The instructions that multiply and add, of the widest registers.
enum class Multiply {
  FmaF32,   ///< vfmadd231ps
  FmaF16,   ///< vfmadd231ph, of AVX512-FP16
  DotBF16,  ///< vdpbf16ps, sums of two products
  DotInt8,  ///< vpdpbusd, sums of four products
  TileBF16, ///< tdpbf16ps
  TileInt8  ///< tdpbssd
};
constexpr int multiplyCount = 6;
using Multiplies = std::bitset<multiplyCount>;

/// What CPUID says about a CPU.
struct CpuIdentity {
  std::string maker;
  unsigned family = 0, model = 0;
  bool hasAvx512 = false;
  Multiplies multiplies; ///< those that it offers, by Multiply
};

/// One core. A rate is zero where no CPU of the model has the instruction; a
/// CPU may lack one that its model has, as a guest of a virtual machine does.
struct CpuModel {
  std::string name; ///< as LLVM has it: "sapphirerapids"
  /// Multiply-adds a cycle, by Multiply.
  double rates[multiplyCount];
  int fmaPorts; ///< instructions of FmaF32 that start in one cycle
  /// Bytes that a cycle reads, where the data lie in this cache.
  double l1Load, l2Load, l3Load;
  /// Sizes of the caches; several cores share the last.
  int64_t l1Bytes, l2Bytes, l3Bytes;

  double rate(Multiply multiply) const { return rates[int(multiply)]; }
};

/// The models by name; null for another name.
const CpuModel *findCpuModel(std::string_view name);

/// The model of a CPU. Virtual machines hide numbers: one whose model lacks a
/// multiply that the CPU offers is another CPU's. Such a CPU, and one that the
/// table lacks, is taken for the newest of its maker that has the same vectors.
const CpuModel &cpuModelOf(const CpuIdentity &cpu);

/// The model of this machine, with the sizes of this machine's caches.
const CpuModel &hostCpuModel();

/// The name of a multiply for people, and whether this CPU and its operating
/// system offer it.
const char *nameOf(Multiply multiply);
bool cpuHas(Multiply multiply);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_TARGETS_CPUMODEL_H
