//===- Architecture.h - a family of processors ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_ISA_ARCHITECTURE_H
#define ANABRANCH_NATIVE_ISA_ARCHITECTURE_H

#include "native/isa/Isa.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <memory>
#include <string>

namespace anabranch {
namespace native {

/// A target for which every machine compiles the same code.
struct NamedTarget {
  std::string name;
  std::string cpu;      ///< LLVM's name of the processor
  std::string features; ///< LLVM's "+avx2,+fma,..."
  std::string model;    ///< the row of the table of machines
};

/// The names of a family of processors for LLVM, the linker and packages, and
/// the targets in it.
struct Architecture {
  const char *name;          ///< in packages: "x86-64"
  const char *triple;        ///< LLVM's
  const char *emulation;     ///< the linker's
  const char *portableModel; ///< the machine that portable code is planned for
  /// Registers LLVM's backend, once. Any thread.
  void (*initialize)();
  llvm::ArrayRef<NamedTarget> (*targets)();
  /// Features that code for this machine has besides the processor's.
  const char *tuning;
  /// The features that this process may use on this machine, by LLVM's names;
  /// false for those that the machine or the system lacks. Only asked of the
  /// machine's own architecture.
  llvm::StringMap<bool> (*hostFeatures)();
  /// The instruction set of these features; null if only portable code runs.
  std::shared_ptr<const Isa> (*createIsa)(llvm::StringRef features);
};

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_ISA_ARCHITECTURE_H
