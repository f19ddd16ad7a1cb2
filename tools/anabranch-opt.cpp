//===- anabranch-opt.cpp - run any phase or pass from text ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "anabranch/Compiler.h"
#include "import/graph/GraphReader.h"
#include "import/lowering/OpTable.h"
#include "import/passes/Passes.h"
#include "ir/Anabranch.h"
#include "ir/Explain.h"
#include "native/target/Target.h"
#include "pipeline/Phases.h"
#include "schedule/Passes.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;

static llvm::cl::opt<bool>
    isGraph("graph",
            llvm::cl::desc("the input is a graph description in JSON"));

static llvm::cl::opt<bool>
    listOperators("operators",
                  llvm::cl::desc("print the operator table as JSON and stop"));

static llvm::cl::opt<std::string>
    stopAfter("until",
              llvm::cl::desc("run the compiler's phases up to this one: "
                             "import, lower, fuse, schedule or memory"));

static llvm::cl::opt<bool>
    explains("explain",
             llvm::cl::desc("with --until: remark why operators were not "
                            "fused or written in place"));

static llvm::cl::opt<std::string>
    cpu("cpu", llvm::cl::init("host"),
        llvm::cl::desc("with --until: the processor that kernels are for"));

/// Runs the compiler's phases on the input and prints the module.
static LogicalResult runPhases(llvm::MemoryBuffer &input, raw_ostream &output,
                               const DialectRegistry &registry) {
  using namespace anabranch::pipeline;
  std::optional<Phase> last = findPhase(stopAfter);
  if (!last || *last > Phase::Memory) {
    llvm::errs() << "no phase to stop after: " << stopAfter << "\n";
    return failure();
  }
  auto target = anabranch::native::TargetInfo::get(cpu);
  if (!target) {
    llvm::errs() << llvm::toString(target.takeError()) << "\n";
    return failure();
  }
  MLIRContext context(registry);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBuffer(input.getMemBufferRef()), SMLoc());
  SourceMgrDiagnosticHandler diagnostics(sources, &context);
  anabranch::ir::setExplaining(&context, explains);
  auto module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return failure();
  PassManager passes(&context, ModuleOp::getOperationName());
  for (const PhaseInfo &info : allPhases())
    if (info.phase <= *last)
      addPasses(passes, info.phase, *target);
  if (failed(passes.run(*module)))
    return failure();
  module->print(output);
  return success();
}

/// The input of the passes: the file, or the module that the phases made of it,
/// as text.
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

#ifdef ANABRANCH_OPT_IN_LIBRARY
extern "C" __attribute__((visibility("default"))) int
anabranch_opt(int argc, char **argv) {
#else
int main(int argc, char **argv) {
#endif
  DialectRegistry registry;
  anabranch::ir::registerAllDialects(registry);
  registerTransformsPasses();
  anabranch::registerImportPasses();
  anabranch::registerSchedulePasses();
  llvm::cl::SetVersionPrinter([](llvm::raw_ostream &out) {
    out << "anabranch-opt " << anabranch_compiler_version() << ", LLVM "
        << LLVM_VERSION_STRING << "\n";
  });
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
  if (!input || !output)
    return 1;
  LogicalResult done =
      stopAfter.empty() ? MlirOptMain(output->os(), std::move(input), registry,
                                      MlirOptMainConfig::createFromCLOptions())
                        : runPhases(*input, output->os(), registry);
  if (failed(done))
    return 1;
  output->keep();
  return 0;
}
