//===- CpuModels.h - the models that are known, and the host's --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The tables are IntelCpus.h, AmdCpus.h, ArmCpus.h and GenericCpus.h.

#ifndef ANABRANCH_MACHINE_PROCESSOR_CPUMODELS_H
#define ANABRANCH_MACHINE_PROCESSOR_CPUMODELS_H

#include "machine/processor/Caches.h"
#include "machine/processor/CpuModel.h"

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace anabranch::machine {

using Multiplies = std::bitset<multiplyCount>;

/// A CPU's identity by CPUID; on Arm by the register MIDR_EL1: the
/// implementer and the part.
struct CpuIdentity {
  std::string maker;
  unsigned family = 0, model = 0;
  bool hasExtensions = false; ///< AVX-512; on Arm, products of bf16
  Multiplies multiplies;      ///< those that the CPU offers
};

/// The model of this name; null if there is none.
const CpuModel *findCpuModel(std::string_view name);

/// The model of a CPU. Virtual machines may report wrong numbers: if the model
/// found lacks a multiply that the CPU offers, it is not the CPU's. Such a CPU,
/// and one that the table lacks, counts as the newest model of its maker with
/// the same extensions.
const CpuModel &cpuModelOf(const CpuIdentity &cpu);

/// Gives the model the sizes that these caches say, and their lines.
void setCaches(CpuModel &model, const std::vector<Cache> &caches);

/// The model of this machine, with the sizes of this machine's caches.
const CpuModel &hostCpuModel();

/// The name of a multiply, for people; and whether this CPU and its operating
/// system offer it.
const char *nameOf(Multiply multiply);
bool cpuHas(Multiply multiply);

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_PROCESSOR_CPUMODELS_H
