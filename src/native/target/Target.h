//===- Target.h - the processor that kernels are made for -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A value type: made once for each compilation, read from any thread.

#ifndef ANABRANCH_NATIVE_TARGET_TARGET_H
#define ANABRANCH_NATIVE_TARGET_TARGET_H

#include "machine/processor/CpuModel.h"
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

using machine::Multiply;

/// Everything that the kernel choices and LLVM need to know about a processor.
struct TargetInfo {
  std::string name;     ///< "host", "avx2", "avx512", ...
  std::string triple;   ///< LLVM's
  std::string cpu;      ///< LLVM's name of the processor
  std::string features; ///< LLVM's "+avx2,+fma,..."

  /// Bytes of a native vector register.
  unsigned vectorBytes = 16;
  bool avx2 = false;
  bool fma = false;
  bool f16c = false;
  bool avx512 = false; ///< F, BW, DQ and VL together
  bool avx512Vnni = false;
  bool avxVnni = false;     ///< the same for 256 bits, without AVX-512
  bool avxVnniInt8 = false; ///< with two signed operands
  bool avx512Bf16 = false;
  bool avx512Fp16 = false;
  bool amxInt8 = false;
  bool amxBf16 = false;

  /// Rates and caches of a core, by which the compiler chooses between
  /// instructions.
  machine::CpuModel model;

  /// Lanes of a native vector with elements of `bits` bits.
  unsigned lanes(unsigned bits) const { return vectorBytes * 8 / bits; }

  /// Whether the target has the instruction; and how many multiply-adds of it a
  /// core does in a cycle, or 0 if it lacks it.
  bool has(Multiply multiply) const;
  double rate(Multiply multiply) const;

  /// Whether the processor runs instructions of 512 bits as two halves, as Zen
  /// 4 does. Its prefetch follows loads of 256 bits further: a sum from memory
  /// is a fifth faster with them.
  bool halvesVectors() const {
    return avx512 && rate(Multiply::FmaF32) <= lanes(32);
  }

  /// The target of this name. "host" is this machine with all its features. The
  /// others are fixed: they compile the same code on every machine.
  static llvm::Expected<TargetInfo> get(llvm::StringRef name = "host");

  /// True if this machine can execute code made for the target.
  bool runsHere() const;

  /// A new TargetMachine of LLVM, for position-independent code. Each thread
  /// needs its own.
  llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
  createTargetMachine() const;
};

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_TARGET_TARGET_H
