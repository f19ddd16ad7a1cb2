//===- CpuFingerprint.h - which CPUs run the same code ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_MACHINE_PROCESSOR_CPUFINGERPRINT_H
#define ANABRANCH_MACHINE_PROCESSOR_CPUFINGERPRINT_H

#include <string>

namespace anabranch::machine {

/// The CPU's name, features and caches, as one line. Code that was compiled
/// under one line runs on every machine with the same line.
std::string cpuFingerprint();

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_PROCESSOR_CPUFINGERPRINT_H
