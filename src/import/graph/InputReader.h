//===- InputReader.h - inputs and symbols of a description ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_GRAPH_INPUTREADER_H
#define ANABRANCH_IMPORT_GRAPH_INPUTREADER_H

#include "import/graph/GraphValues.h"

namespace anabranch {
namespace importer {

/// Reads `symbols` and `inputs`. `read` finds the arguments of @main. `define`,
/// once they exist, finds the values of the symbols. The lists have one entry
/// for each input.
class InputReader {
public:
  InputReader(DescriptionPieces &in, GraphValues &values)
      : in(in), values(values) {}

  /// Declares the symbols and fills the lists.
  mlir::LogicalResult read(const llvm::json::Object &graph);
  /// Names the arguments of @main, gives symbols their values, and has the
  /// program check each size that follows from others. Builds at the builder's
  /// insertion point.
  mlir::LogicalResult define(const llvm::json::Object &graph,
                             mlir::ValueRange arguments);
  /// Has the program check what the user asked of its sizes.
  mlir::LogicalResult readChecks(const llvm::json::Object &graph);

  llvm::SmallVector<mlir::Type> types;
  llvm::SmallVector<mlir::DictionaryAttr> attrs;
  llvm::SmallVector<std::string> names;

private:
  using Object = llvm::json::Object;
  using Array = llvm::json::Array;

  mlir::LogicalResult readInput(const Object &input);
  mlir::LogicalResult readRange(const Object &input, mlir::NamedAttrList &own);
  mlir::LogicalResult readGroups(const Object &input, mlir::NamedAttrList &own);
  mlir::LogicalResult nameArguments(const Array &inputs,
                                    mlir::ValueRange arguments);
  mlir::LogicalResult defineSymbols(const Array &inputs);
  mlir::LogicalResult expectSizes(const Object &graph, const Array &inputs);
  mlir::LogicalResult expectSize(mlir::Value size,
                                 const llvm::json::Value &expr);
  bool isDefined(const llvm::json::Value &expr) const;

  DescriptionPieces &in;
  GraphValues &values;
};

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_GRAPH_INPUTREADER_H
