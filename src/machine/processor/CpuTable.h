//===- CpuTable.h - what a line of a table of CPUs says ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A new CPU is a row in the table of its maker, and nothing else. A new maker
// is a table, and a word in CpuModels.cpp.

#ifndef ANABRANCH_MACHINE_PROCESSOR_CPUTABLE_H
#define ANABRANCH_MACHINE_PROCESSOR_CPUTABLE_H

#include "machine/processor/CpuModel.h"
#include "machine/processor/MemoryUnits.h"

#include <iterator>
#include <string_view>

namespace anabranch::machine {

/// The CPUs whose CPUID gives this family and a model from `first` to `last`.
struct CpuNumbers {
  unsigned family = 0, first = 0, last = 0;
};

/// A model, and the numbers of its CPUs. If several rows of a table have the
/// numbers of a CPU, the first one counts whose model has the multiplies that
/// the CPU offers.
struct CpuRow {
  CpuModel model;
  CpuNumbers numbers[8] = {};
};

/// The table of a maker, and the models that count for CPUs which it lacks: the
/// newest with AVX-512 or, on Arm, with products of bf16; and the newest
/// without.
struct CpuMaker {
  std::string_view names[2]; ///< by CPUID
  const CpuRow *begin, *end;
  std::string_view newestExtended, newest;
};

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_PROCESSOR_CPUTABLE_H
