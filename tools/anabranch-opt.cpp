//===- anabranch-opt.cpp - run any phase or pass from text ----------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "import/Passes.h"
#include "ir/Anabranch.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  anabranch::ir::registerAllDialects(registry);
  mlir::registerTransformsPasses();
  anabranch::registerImportPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Anabranch compiler driver\n", registry));
}
