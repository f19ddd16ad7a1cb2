//===- Diagnostics.cpp - what MLIR says becomes a message -----------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "pipeline/Diagnostics.h"

#include "ir/Explain.h"

using namespace mlir;

namespace anabranch {
namespace pipeline {

/// "model.py:12: the message", as Python's own tools print places.
static std::string textOf(Diagnostic &diagnostic) {
  std::string place = ir::describeLocation(diagnostic.getLocation());
  std::string text = place.empty() ? "" : place + ": ";
  text += diagnostic.str();
  for (Diagnostic &note : diagnostic.getNotes())
    text += "\n  note: " + note.str();
  return text;
}

DiagnosticCollector::DiagnosticCollector(MLIRContext *context, Report &report)
    : report(report),
      handler(context, [this](Diagnostic &diagnostic) { handle(diagnostic); }) {
}

void DiagnosticCollector::handle(Diagnostic &diagnostic) {
  std::lock_guard<std::mutex> lock(mutex);
  if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
    errors += (errors.empty() ? "" : "\n") + textOf(diagnostic);
  else
    report.addRefusal(textOf(diagnostic));
}

std::string DiagnosticCollector::message() {
  std::lock_guard<std::mutex> lock(mutex);
  return errors;
}

} // namespace pipeline
} // namespace anabranch
