//===- GraphValues.h - values that a description names ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_GRAPH_GRAPHVALUES_H
#define ANABRANCH_IMPORT_GRAPH_GRAPHVALUES_H

#include "import/graph/DescriptionPieces.h"
#include "import/graph/GraphExpr.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"

namespace anabranch {
namespace importer {

/// The values of the inputs and nodes read so far, by name, and their
/// properties that a tensor's type lacks. The readers of inputs, nodes and
/// outputs share one object.
class GraphValues {
public:
  explicit GraphValues(DescriptionPieces &in) : in(in) {}

  /// Adds values under a name. False if the name is taken.
  bool add(llvm::StringRef name, llvm::ArrayRef<mlir::Value> made);
  void setDType(mlir::Value value, llvm::StringRef dtype);

  /// The value of `{"ref": name}` or `{"ref": name, "result": i}`.
  mlir::FailureOr<mlir::Value>
  reference(const llvm::json::Object &object) const;
  /// The only value of an input.
  mlir::Value input(llvm::StringRef name) const;
  /// The dtype's name in the description; empty for a size.
  llvm::StringRef dtypeOf(mlir::Value value) const;
  bool isUnsigned(mlir::Value value) const;

  GraphExpr sizes; ///< the symbols, and expressions of them

private:
  DescriptionPieces &in;
  llvm::StringMap<llvm::SmallVector<mlir::Value>> values;
  llvm::DenseMap<mlir::Value, std::string> dtypes;
};

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_GRAPH_GRAPHVALUES_H
