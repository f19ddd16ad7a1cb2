//===- anabranch-opt.cpp - run any phase or pass from text ----------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "import/GraphReader.h"
#include "import/OpTable.h"
#include "import/Passes.h"
#include "ir/Anabranch.h"
#include "schedule/Passes.h"

#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;

static llvm::cl::opt<bool>
    isGraph("graph",
            llvm::cl::desc("the input is a graph description in JSON"));

static llvm::cl::opt<bool>
    listOperators("operators",
                  llvm::cl::desc("print the operator table as JSON and stop"));

/// The input of the passes: the file, or the module made of it as text.
static std::unique_ptr<llvm::MemoryBuffer>
openInput(StringRef name, const DialectRegistry &registry) {
  std::string error;
  std::unique_ptr<llvm::MemoryBuffer> file = openInputFile(name, &error);
  if (!file) {
    llvm::errs() << error << "\n";
    return nullptr;
  }
  if (!isGraph)
    return file;
  MLIRContext context(registry);
  OwningOpRef<ModuleOp> module =
      anabranch::importGraph(file->getBuffer(), context);
  if (!module)
    return nullptr;
  std::string text;
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags;
  module->print(stream, flags.enableDebugInfo());
  return llvm::MemoryBuffer::getMemBufferCopy(text, name);
}

int main(int argc, char **argv) {
  DialectRegistry registry;
  anabranch::ir::registerAllDialects(registry);
  registerTransformsPasses();
  anabranch::registerImportPasses();
  anabranch::registerSchedulePasses();
  auto [inputName, outputName] = registerAndParseCLIOptions(
      argc, argv, "Anabranch compiler driver\n", registry);
  if (listOperators) {
    llvm::outs() << anabranch::importer::describeOpTable() << "\n";
    return 0;
  }
  std::unique_ptr<llvm::MemoryBuffer> input = openInput(inputName, registry);
  std::string error;
  std::unique_ptr<llvm::ToolOutputFile> output =
      openOutputFile(outputName, &error);
  if (!output)
    llvm::errs() << error << "\n";
  if (!input || !output ||
      failed(MlirOptMain(output->os(), std::move(input), registry,
                         MlirOptMainConfig::createFromCLOptions())))
    return 1;
  output->keep();
  return 0;
}
