//===- NodeReader.h - nodes of a description, as anabranch.aten -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_GRAPH_NODEREADER_H
#define ANABRANCH_IMPORT_GRAPH_NODEREADER_H

#include "import/graph/GraphValues.h"

#include "mlir/IR/OpDefinition.h"

namespace anabranch {
namespace importer {

/// Makes one `anabranch.aten` for each node, at the builder's insertion point.
class NodeReader {
public:
  NodeReader(DescriptionPieces &in, GraphValues &values)
      : in(in), values(values) {}

  mlir::LogicalResult read(const llvm::json::Object &node);

private:
  mlir::LogicalResult readArguments(const llvm::json::Object &node,
                                    mlir::OperationState &state);
  mlir::LogicalResult
  readResults(const llvm::json::Object &node, mlir::OperationState &state,
              mlir::SmallVectorImpl<mlir::Value> &dims,
              mlir::SmallVectorImpl<int64_t> &unsignedResults);
  mlir::LogicalResult readScope(const llvm::json::Object &node,
                                mlir::Operation *op);
  mlir::LogicalResult readSuper(const llvm::json::Object &node);
  mlir::FailureOr<mlir::Attribute> argument(const llvm::json::Value &arg);
  mlir::FailureOr<mlir::Attribute>
  taggedArgument(const llvm::json::Object &arg);
  mlir::Attribute numberFor(mlir::OpFoldResult number);
  mlir::FailureOr<mlir::Attribute> sizesFor(const llvm::json::Array &list);
  mlir::FailureOr<mlir::Attribute>
  writtenArgument(const llvm::json::Object &arg);
  mlir::LogicalResult
  readWrites(const llvm::json::Object &node,
             mlir::SmallVectorImpl<int64_t> &written,
             mlir::SmallVectorImpl<mlir::DenseI64ArrayAttr> &strides);
  mlir::Attribute operandFor(mlir::Value value);

  DescriptionPieces &in;
  GraphValues &values;
  mlir::SmallVector<mlir::Value> operands; ///< of the node being read
};

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_GRAPH_NODEREADER_H
