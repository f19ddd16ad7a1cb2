//===- GraphReader.h - graph description to level "aten" --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_GRAPH_GRAPHREADER_H
#define ANABRANCH_IMPORT_GRAPH_GRAPHREADER_H

#include "import/graph/BindSymbols.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace anabranch {

/// Makes a module of level "aten" from a graph description
/// (docs/design/foundation.md, sections 1 and 2). The text may be anything: a
/// defect is a diagnostic that names the node, and the result is null. The
/// context must have the dialects of ir::registerAllDialects; one thread at a
/// time may use it. Symbols of `binding` become numbers in the module.
mlir::OwningOpRef<mlir::ModuleOp> importGraph(llvm::StringRef json,
                                              mlir::MLIRContext &context,
                                              const Binding &binding = {});

/// Makes one module of the graph, then one of each of its regions, in the order
/// of their numbers (docs/design/regions.md). Returns nothing after a
/// diagnostic.
llvm::SmallVector<mlir::OwningOpRef<mlir::ModuleOp>>
importWithRegions(llvm::StringRef json, mlir::MLIRContext &context,
                  const Binding &binding = {});

} // namespace anabranch

#endif // ANABRANCH_IMPORT_GRAPH_GRAPHREADER_H
