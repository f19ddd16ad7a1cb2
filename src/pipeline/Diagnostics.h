//===- Diagnostics.h - what MLIR says becomes a message ---------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_PIPELINE_DIAGNOSTICS_H
#define ANABRANCH_PIPELINE_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "pipeline/Report.h"

#include <mutex>

namespace anabranch {
namespace pipeline {

/// Gathers the errors of a context while it lives; remarks (refusals) go into
/// the report. Diagnostics may come from any thread.
class DiagnosticCollector {
public:
  DiagnosticCollector(mlir::MLIRContext *context, Report &report);

  /// Every error so far, one paragraph each.
  std::string message();

private:
  void handle(mlir::Diagnostic &diagnostic);

  Report &report;
  std::mutex mutex;
  std::string errors;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace pipeline
} // namespace anabranch

#endif // ANABRANCH_PIPELINE_DIAGNOSTICS_H
