//===- Passes.h - the passes of the import room -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_PASSES_PASSES_H
#define ANABRANCH_IMPORT_PASSES_PASSES_H

#include "mlir/Pass/Pass.h"

#include <functional>

namespace anabranch {
namespace ir {
class AttentionOp;
} // namespace ir

/// `anabranch-lower-fences`: waits and records of streams become fences.
std::unique_ptr<mlir::Pass> createLowerFencesPass();

/// `anabranch-normalize-aten`: removes calls that do nothing, at level "aten".
std::unique_ptr<mlir::Pass> createNormalizeAtenPass();

/// `anabranch-fold-batch-norm`: folds batch norm after a convolution or a
/// linear layer into its weights, if all of them are frozen.
std::unique_ptr<mlir::Pass> createFoldBatchNormPass();

/// `anabranch-multiply-integers`: products and convolutions of tensors that
/// stand for bytes multiply the bytes. `dotsBytes` says whether the processor
/// adds four products of bytes at once.
std::unique_ptr<mlir::Pass> createMultiplyIntegersPass(bool dotsBytes = true);

/// `anabranch-lower-aten`: applies the operator table. A call without a
/// lowering stays, with the attribute `anabranch.refusal`.
std::unique_ptr<mlir::Pass> createLowerAtenPass();

/// `anabranch-decompose-attention`: turns attention into contractions and a
/// softmax, unless `keep` says that it has a kernel.
std::unique_ptr<mlir::Pass> createDecomposeAttentionPass(
    std::function<bool(ir::AttentionOp)> keep = nullptr);

/// `anabranch-compose-updates`: makes updates of a tensor's parts, and of parts
/// of parts, updates of the tensor.
std::unique_ptr<mlir::Pass> createComposeUpdatesPass();

/// `anabranch-verify-linalg`: fails unless only operations of level "linalg"
/// remain.
std::unique_ptr<mlir::Pass> createVerifyLinalgPass();

/// Makes the passes of this room known to command lines.
inline void registerImportPasses() {
  mlir::registerPass(createLowerFencesPass);
  mlir::registerPass(createNormalizeAtenPass);
  mlir::registerPass(createFoldBatchNormPass);
  mlir::registerPass([] { return createMultiplyIntegersPass(); });
  mlir::registerPass(createLowerAtenPass);
  mlir::registerPass([] { return createDecomposeAttentionPass(); });
  mlir::registerPass(createComposeUpdatesPass);
  mlir::registerPass(createVerifyLinalgPass);
}

} // namespace anabranch

#endif // ANABRANCH_IMPORT_PASSES_PASSES_H
