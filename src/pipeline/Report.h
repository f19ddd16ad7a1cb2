//===- Report.h - what a compilation did, as JSON ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PIPELINE_REPORT_H
#define ANABRANCH_PIPELINE_REPORT_H

#include "ir/Anabranch.h"
#include "kernels/Tuning.h"
#include "mlir/IR/BuiltinOps.h"
#include "native/object/KernelObject.h"
#include "llvm/Support/JSON.h"
#include <string>

namespace anabranch {
namespace pipeline {

/// The report of include/anabranch/Compiler.h, filled phase by phase.
class Report {
public:
  void addPhase(llvm::StringRef name, double milliseconds);
  void addExplanation(std::string line) {
    explanations.push_back(std::move(line));
  }
  /// After the phase "lower": adds the operators that PyTorch will run, and
  /// why.
  void addFallbacks(mlir::ModuleOp module);
  /// After the phase "memory".
  void addProgram(mlir::ModuleOp module);
  void addKernels(mlir::ModuleOp module,
                  llvm::ArrayRef<native::KernelObject> objects);
  /// Adds the blockings that the tuner may time, by kernel.
  void addBlockings(llvm::ArrayRef<kernels::TunableKernel> found);

  std::string json() const;

private:
  void addSupers(ir::ProgramOp program);

  llvm::json::Array phases, kernels, fallbacks, supers, breaks;
  llvm::json::Array explanations, blockings;
  int64_t dispatches = 0;
  llvm::json::Value arenaBytes = nullptr;
};

} // namespace pipeline
} // namespace anabranch

#endif // ANABRANCH_PIPELINE_REPORT_H
