//===- Compile.h - loops to machine code, in parallel -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The door of this room: functions go in, object files come out. At most one
// thread at a time may call it for an MLIRContext; it uses the context's thread
// pool.

#ifndef ANABRANCH_NATIVE_COMPILE_H
#define ANABRANCH_NATIVE_COMPILE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LogicalResult.h"
#include "native/object/KernelObject.h"
#include "native/target/Target.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <functional>
#include <string>
#include <vector>

namespace anabranch {
namespace native {

/// Compiled kernels of earlier compilations, under keys of what they were made
/// from. Any thread.
struct ObjectStore {
  std::string identity; ///< of this compiler
  std::function<bool(const std::string &key,
                     llvm::SmallVectorImpl<char> &bytes)>
      find;
  std::function<void(const std::string &key, llvm::ArrayRef<char> bytes)> keep;
};

struct CompileOptions {
  TargetInfo target;
  const ObjectStore *objects = nullptr;
  /// The folder for NAME.loops.mlir, NAME.ll and NAME.s of every kernel; empty:
  /// none.
  std::string dumpDirectory;
  /// Called when every kernel is in LLVM's dialect, before LLVM begins.
  std::function<void()> lowered;
};

/// Called after each kernel with the kernel and the number of kernels done: one
/// call at a time, on any thread. Returning false cancels the compilation.
using ProgressFn =
    std::function<bool(const KernelObject &kernel, size_t done, size_t total)>;

/// Replaces a function at level "kernel" by functions at level "loops". A
/// failure is a diagnostic.
using EmitFn = mlir::LogicalResult (*)(mlir::func::FuncOp kernel,
                                       const TargetInfo &target);

/// Compiles every function with a body in `module`, and does not change
/// `module`:
///
/// - `emit` takes those with the attribute `anabranch.kernel`. It may be null
///   if there are none;
/// - all other functions (level "loops": scf, arith, math, vector, cf and LLVM
///   dialect on scalars, vectors and !llvm.ptr), without changes. A function
///   NAME_setup, NAME_plan or NAME_footprint goes into the object of NAME.
///
/// A failure is a diagnostic at the function's location; none ends the process.
mlir::FailureOr<std::vector<KernelObject>>
compile(mlir::ModuleOp module, const CompileOptions &options, EmitFn emit = {},
        const ProgressFn &progress = {});

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_COMPILE_H
