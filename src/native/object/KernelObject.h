//===- KernelObject.h - the object file of one kernel -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_OBJECT_KERNELOBJECT_H
#define ANABRANCH_NATIVE_OBJECT_KERNELOBJECT_H

#include "llvm/ADT/SmallVector.h"

#include <string>

namespace anabranch {
namespace native {

/// The object file of one kernel and what it cost, in milliseconds.
struct KernelObject {
  std::string name;
  /// The prefix of the names of its functions in `bytes`, if that is not the
  /// kernel's name. The linker adds the same names with the kernel's.
  std::string symbol;
  bool found = false; ///< found in the object store
  llvm::SmallVector<char, 0> bytes;
  double emitMs = 0;     ///< kernel function to loops
  double lowerMs = 0;    ///< loops to LLVM IR
  double optimizeMs = 0; ///< LLVM IR to LLVM IR
  double objectMs = 0;   ///< LLVM IR to machine code

  double totalMs() const { return emitMs + lowerMs + optimizeMs + objectMs; }
};

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_OBJECT_KERNELOBJECT_H
