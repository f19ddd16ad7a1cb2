//===- Target.h - the processor that kernels are made for -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A value type: made once for each compilation, read from any thread.

#ifndef ANABRANCH_NATIVE_TARGET_TARGET_H
#define ANABRANCH_NATIVE_TARGET_TARGET_H

#include "machine/processor/CpuModel.h"
#include "native/isa/Architecture.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <memory>
#include <string>

namespace llvm {
class TargetMachine;
} // namespace llvm

namespace anabranch {
namespace native {

/// Everything that plans and LLVM need to know about a processor.
struct TargetInfo {
  std::string name;     ///< "host", "portable", "avx2", ...
  std::string triple;   ///< LLVM's
  std::string cpu;      ///< LLVM's name of the processor
  std::string features; ///< LLVM's "+avx2,+fma,..."

  /// Rates and caches of a core, by which the compiler chooses between
  /// instructions.
  machine::CpuModel model;

  const Architecture &architecture() const { return *family; }
  const Isa &isa() const { return *instructions; }

  /// Lanes of a native vector with elements of `bits` bits.
  unsigned lanes(unsigned bits) const { return isa().vectorBytes() * 8 / bits; }

  /// How many multiply-adds of the instruction a core does in a cycle, or 0 if
  /// it lacks it.
  double rate(Multiply multiply) const;

  /// Whether an instruction multiplies whole vectors of unsigned bytes by
  /// signed ones. A processor may have products of signed bytes alone.
  bool dotsMixedBytes() const {
    return isa().hasByteDot(Isa::ByteSigns::Mixed, lanes(32));
  }

  /// Whether the processor runs instructions of 512 bits as two halves, as Zen
  /// 4 does. Its prefetch follows loads of 256 bits further: a sum from memory
  /// is a fifth faster with them.
  bool halvesVectors() const {
    return isa().vectorBytes() == 64 && rate(Multiply::FmaF32) <= lanes(32);
  }

  /// The target of this name. "host" is this machine with all its features.
  /// "portable" is any processor of this machine's architecture. The others are
  /// fixed: they compile the same code on every machine.
  static llvm::Expected<TargetInfo> get(llvm::StringRef name = "host");

  /// True if this machine can execute code made for the target.
  bool runsHere() const;

  /// A new TargetMachine of LLVM, for position-independent code. Each thread
  /// needs its own.
  llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
  createTargetMachine() const;

private:
  const Architecture *family = nullptr;
  std::shared_ptr<const Isa> instructions;

  void setFamily(const Architecture &architecture);
  void describeHost();
};

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_TARGET_TARGET_H
