//===- Passes.cpp - the passes of the import room -------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "import/Passes.h"

#include "ir/Anabranch.h"
#include "mlir/Pass/Pass.h"

void anabranch::registerImportPasses() {
  mlir::registerPass(createLowerFencesPass);
  mlir::registerPass(createNormalizeAtenPass);
  mlir::registerPass(createFoldBatchNormPass);
  mlir::registerPass(createLowerAtenPass);
  mlir::registerPass([] { return createDecomposeAttentionPass(); });
  mlir::registerPass(createVerifyLinalgPass);
}
