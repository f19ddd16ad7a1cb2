//===- Pipeline.h - from a graph description to a package -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PIPELINE_PIPELINE_H
#define ANABRANCH_PIPELINE_PIPELINE_H

#include "import/padding/ProvePadding.h"
#include "kernels/CompileKernels.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "package/folder/Writer.h"
#include "pipeline/Options.h"
#include "pipeline/Phases.h"
#include "pipeline/ReleaseCode.h"
#include "pipeline/Report.h"
#include "llvm/Support/ThreadPool.h"
#include <functional>
#include <memory>

namespace anabranch {
namespace pipeline {

enum class Outcome { Ok, UserError, InternalError, Cancelled };

/// Called with `done` of `total` steps of a phase. Returning false cancels.
using Progress =
    std::function<bool(llvm::StringRef phase, int64_t done, int64_t total)>;

/// One compilation, with a context of its own. One thread makes it and calls
/// `run` once; other threads compile kernels meanwhile.
class Compilation {
public:
  Compilation(Options options, Progress progress,
              native::ObjectStore objects = {});
  ~Compilation();

  /// Runs all phases up to the one to stop after.
  Outcome run(llvm::StringRef graph,
              llvm::ArrayRef<package::Constant> constants,
              const std::string &output);

  /// All errors, each with the user's line.
  const std::string &message() const { return messages; }
  const Report &report() const { return summary; }

private:
  Outcome runPhase(Phase phase);
  Outcome import();
  Outcome prove();
  Outcome runPasses(Phase phase);
  Outcome runPasses(Phase phase, mlir::ModuleOp module);
  Outcome codegen();
  Outcome package();
  Outcome fail(const llvm::Twine &what);
  void dump(Phase phase);
  void take(mlir::Diagnostic &diagnostic);

  CodeOfPhases code;
  Options options;
  Progress progress;
  native::ObjectStore objects; ///< no functions in it: there is no store
  /// Threads that compile kernels; null: as many as there are CPUs, or none.
  std::unique_ptr<llvm::ThreadPoolInterface> workers;
  mlir::MLIRContext context;
  /// For each binding the module of its program, then those of its regions.
  /// From Codegen on one module for all.
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules;
  size_t modulesOfProgram = 1;
  std::vector<PaddedDim> padded;
  llvm::StringRef graph;
  llvm::ArrayRef<package::Constant> constants;
  std::string output;
  native::TargetInfo target;
  std::string kernels; ///< path of the linked library, until it is moved
  std::string lastDump, messages;
  Report summary;
};

/// The target's features as machine/processor/CpuFeatures.h spells them.
std::vector<std::string> featuresOf(const native::TargetInfo &target);

} // namespace pipeline
} // namespace anabranch

#endif // ANABRANCH_PIPELINE_PIPELINE_H
