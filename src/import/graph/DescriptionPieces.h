//===- DescriptionPieces.h - what descriptions are made of ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_GRAPH_DESCRIPTIONPIECES_H
#define ANABRANCH_IMPORT_GRAPH_DESCRIPTIONPIECES_H

#include "import/scalar/DType.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/JSON.h"

namespace anabranch {
namespace importer {

/// Reads the small parts of a graph description. A missing or wrong part is a
/// diagnostic at `loc`, which names the node being read. All readers of a
/// description share one object.
class DescriptionPieces {
public:
  using Object = llvm::json::Object;

  explicit DescriptionPieces(mlir::MLIRContext &context);

  mlir::InFlightDiagnostic error() { return mlir::emitError(loc); }
  /// Later diagnostics and operations get the location of this node.
  void setLocation(const Object &node, mlir::StringRef name);
  /// Does the same with the name that the node contains, and returns the name.
  mlir::FailureOr<mlir::StringRef> enter(const Object &node);

  const llvm::json::Array *list(const Object &object, mlir::StringRef key,
                                bool required = true);
  /// Reads each object of a list.
  mlir::LogicalResult
  objects(const Object &object, mlir::StringRef key,
          llvm::function_ref<mlir::LogicalResult(const Object &)> read,
          bool required = true);
  mlir::FailureOr<mlir::StringRef> text(const Object &object,
                                        mlir::StringRef key);
  mlir::FailureOr<DType> dtype(const Object &object);
  /// The type of a tensor. Symbolic sizes become dynamic dimensions.
  mlir::FailureOr<mlir::RankedTensorType> tensorType(const Object &object);
  /// The strides of a tensor; null if they are those of a row-major tensor.
  mlir::FailureOr<mlir::DenseI64ArrayAttr> strides(const Object &object,
                                                   int64_t rank);

  mlir::MLIRContext &context;
  mlir::OpBuilder builder;
  mlir::Location loc;
};

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_GRAPH_DESCRIPTIONPIECES_H
