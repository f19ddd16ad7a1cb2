//===- Codegen.h - kernels to machine code ----------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// The door of this room: kernel functions in, object files out. Call it
// from one thread at a time per MLIRContext; it uses the context's thread pool.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_CODEGEN_H
#define ANABRANCH_CODEGEN_CODEGEN_H

#include "codegen/object/KernelObject.h"
#include "codegen/target/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LogicalResult.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <functional>
#include <string>
#include <vector>

namespace anabranch {
namespace codegen {

/// Machine code that was made before, by keys of what it was made from. Any
/// thread.
struct ObjectStore {
  std::string identity; ///< of this compiler
  std::function<bool(const std::string &key,
                     llvm::SmallVectorImpl<char> &bytes)>
      find;
  std::function<void(const std::string &key, llvm::ArrayRef<char> bytes)> keep;
};

struct CodegenOptions {
  TargetInfo target;
  const ObjectStore *objects = nullptr;
  /// Where to leave NAME.loops.mlir, NAME.ll and NAME.s of every kernel; empty:
  /// nowhere.
  std::string dumpDirectory;
  /// Called when every kernel is in LLVM's dialect and LLVM begins.
  std::function<void()> lowered;
};

/// Told after every kernel, one call at a time but from any thread, the kernel
/// and how many of all are done. False cancels the compilation.
using ProgressFn =
    std::function<bool(const KernelObject &kernel, size_t done, size_t total)>;

/// Compiles every function with a body in `module`, which stays as it is:
/// - `anabranch.kernel` functions on tensors (level "kernel"), by the kernel
///   choices, to NAME and NAME_plan, and NAME_footprint of those with
///   `anabranch.footprint`;
/// - any other function (level "loops": scf, arith, math, vector, cf and LLVM
///   dialect on scalars, vectors and !llvm.ptr), as it stands. A function
///   NAME_plan or NAME_footprint goes into the object of NAME.
/// Failures are diagnostics at the function's location; none ends the process.
mlir::FailureOr<std::vector<KernelObject>>
compileKernels(mlir::ModuleOp module, const CodegenOptions &options,
               const ProgressFn &progress = {});

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_CODEGEN_H
