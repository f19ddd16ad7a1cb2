//===- OutputReader.h - outputs and mutations of a description --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_GRAPH_OUTPUTREADER_H
#define ANABRANCH_IMPORT_GRAPH_OUTPUTREADER_H

#include "import/graph/InputReader.h"

namespace anabranch {
namespace importer {

/// Reads `outputs` and `mutations`, whose values @main returns. The lists have
/// one entry for each result.
class OutputReader {
public:
  OutputReader(DescriptionPieces &in, const GraphValues &values,
               const InputReader &inputs)
      : in(in), values(values), inputs(inputs) {}

  mlir::LogicalResult read(const llvm::json::Object &graph);

  llvm::SmallVector<mlir::Value> results;
  llvm::SmallVector<mlir::DictionaryAttr> attrs;

private:
  mlir::LogicalResult readOutput(const llvm::json::Object &output);
  mlir::LogicalResult readMutation(const llvm::json::Object &mutation);
  void addResult(mlir::Value value,
                 llvm::SmallVector<mlir::NamedAttribute> own);

  DescriptionPieces &in;
  const GraphValues &values;
  const InputReader &inputs;
};

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_GRAPH_OUTPUTREADER_H
