//===- CpuFeatures.h - what this CPU can do ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_MACHINE_PROCESSOR_CPUFEATURES_H
#define ANABRANCH_MACHINE_PROCESSOR_CPUFEATURES_H

#include <string>
#include <string_view>
#include <vector>

namespace anabranch::machine {

/// The architecture that this process runs on: "x86-64", "aarch64".
const char *hostCpu();

/// Whether a feature of this name is known, of any architecture.
bool isFeature(std::string_view feature);

/// Whether this CPU and its operating system offer `feature`, by LLVM's name
/// ("avx2", "avx512bf16", "amx-tile"). False for an unknown name. The first
/// question asks the system for AMX registers, once for all threads.
bool cpuHas(std::string_view feature);

/// The features of the list that this CPU lacks.
std::vector<std::string>
missingFeatures(const std::vector<std::string> &features);

/// The bytes of the widest vectors for code that is compiled for several
/// widths: 64 with AVX-512 and 32 with AVX2, if the CPU has FMA too; 16
/// elsewhere.
int vectorBytes();

/// Whether the CPU's counter of cycles runs at one speed, also in idle states.
bool hasInvariantCounter();

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_PROCESSOR_CPUFEATURES_H
