//===- GraphReaderFuzz.cpp - no graph description ends the process --------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/graph/GraphReader.h"
#include "ir/Anabranch.h"

#include "mlir/IR/Diagnostics.h"
#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mlir::DialectRegistry registry;
  anabranch::ir::registerAllDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  mlir::ScopedDiagnosticHandler quiet(
      &context, [](mlir::Diagnostic &) { return mlir::success(); });
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  (void)anabranch::importGraph(text, context);
  return 0;
}
