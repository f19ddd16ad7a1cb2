//===- GraphBuilder.h - the module of a graph description -------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_IMPORT_GRAPH_GRAPHBUILDER_H
#define ANABRANCH_IMPORT_GRAPH_GRAPHBUILDER_H

#include "import/graph/DescriptionPieces.h"
#include "import/graph/GraphExpr.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"

namespace anabranch {
namespace importer {

/// Builds the module of level "aten", part by part: inputs and symbols in
/// ReadInputs.cpp, nodes in ReadNodes.cpp, the rest in GraphReader.cpp.
class GraphBuilder : DescriptionPieces {
public:
  explicit GraphBuilder(mlir::MLIRContext &context)
      : DescriptionPieces(context) {}

  mlir::OwningOpRef<mlir::ModuleOp> read(const llvm::json::Object &graph);

private:
  // Inputs and symbols.
  mlir::LogicalResult readSymbols(const llvm::json::Object &graph);
  mlir::LogicalResult readInput(const llvm::json::Object &input);
  mlir::LogicalResult defineSymbols(const llvm::json::Array &inputs);
  mlir::LogicalResult expectSizes(const llvm::json::Object &graph,
                                  const llvm::json::Array &inputs);
  mlir::LogicalResult expectSize(mlir::Value size,
                                 const llvm::json::Value &expr);
  bool isDefined(const llvm::json::Value &expr) const;

  // Nodes.
  mlir::LogicalResult readNode(const llvm::json::Object &node);
  mlir::LogicalResult readArguments(const llvm::json::Object &node,
                                    mlir::OperationState &state);
  mlir::LogicalResult
  readResults(const llvm::json::Object &node, mlir::OperationState &state,
              mlir::SmallVectorImpl<mlir::Value> &dims,
              mlir::SmallVectorImpl<int64_t> &unsignedResults);
  mlir::LogicalResult readScope(const llvm::json::Object &node,
                                mlir::Operation *op);
  mlir::LogicalResult readSuper(const llvm::json::Object &node);
  /// `{"ref": node}` or `{"ref": node, "result": i}`.
  mlir::FailureOr<mlir::Value> reference(const llvm::json::Object &object);
  mlir::FailureOr<mlir::Attribute> argument(const llvm::json::Value &arg);
  mlir::FailureOr<mlir::Attribute>
  taggedArgument(const llvm::json::Object &arg);
  mlir::Attribute operandFor(mlir::Value value);

  // Outputs.
  mlir::LogicalResult readOutput(const llvm::json::Object &output);
  mlir::LogicalResult readMutation(const llvm::json::Object &mutation);
  void addResult(mlir::Value value,
                 mlir::SmallVector<mlir::NamedAttribute> attrs);

  GraphExpr sizes;

  mlir::SmallVector<mlir::Type> argumentTypes;
  mlir::SmallVector<mlir::DictionaryAttr> argumentAttrs;
  mlir::SmallVector<std::string> argumentNames;
  llvm::StringMap<mlir::SmallVector<mlir::Value>> values; ///< by node or input
  /// As the description names them.
  llvm::DenseMap<mlir::Value, std::string> dtypes;
  llvm::DenseSet<mlir::Value> unsignedValues;
  mlir::SmallVector<mlir::Value> operands; ///< of the node being read
  mlir::SmallVector<mlir::Value> results;
  mlir::SmallVector<mlir::DictionaryAttr> resultAttrs;
};

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_GRAPH_GRAPHBUILDER_H
