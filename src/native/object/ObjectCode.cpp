//===- ObjectCode.cpp - LLVM IR to object files ---------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/object/ObjectCode.h"

#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

#include <mutex>
#include <new>
#include <stdexcept>

using namespace llvm;

namespace anabranch {
namespace native {
namespace {

struct FatalLLVMError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// True while this thread is inside guardLLVM. Only then a fatal error is ours.
thread_local bool guarded = false;

void handleFatalError(void *, const char *reason, bool) {
  if (guarded)
    throw FatalLLVMError(reason);
}

/// LLVM has one handler for each process, and it stays. Threads outside of
/// guardLLVM keep LLVM's own behaviour.
void installHandlers() {
  static std::once_flag once;
  std::call_once(once, [] { install_fatal_error_handler(handleFatalError); });
}

} // namespace

Error guardLLVM(function_ref<Error()> body) {
  installHandlers();
  bool outer = guarded;
  guarded = true;
  try {
    Error error = body();
    guarded = outer;
    return error;
  } catch (const FatalLLVMError &error) {
    guarded = outer;
    return createStringError("LLVM: %s", error.what());
  } catch (const std::bad_alloc &) {
    guarded = outer;
    return createStringError("out of memory in LLVM");
  }
}

void optimizeModule(Module &module, TargetMachine &machine) {
  LoopAnalysisManager loopAnalyses;
  FunctionAnalysisManager functionAnalyses;
  CGSCCAnalysisManager sccAnalyses;
  ModuleAnalysisManager moduleAnalyses;
  PassBuilder builder(&machine);
  builder.registerModuleAnalyses(moduleAnalyses);
  builder.registerCGSCCAnalyses(sccAnalyses);
  builder.registerFunctionAnalyses(functionAnalyses);
  builder.registerLoopAnalyses(loopAnalyses);
  builder.crossRegisterProxies(loopAnalyses, functionAnalyses, sccAnalyses,
                               moduleAnalyses);

  FunctionPassManager passes;
  passes.addPass(SROAPass(SROAOptions::PreserveCFG));
  passes.addPass(EarlyCSEPass());
  passes.addPass(InstCombinePass());
  passes.addPass(SimplifyCFGPass());
  passes.addPass(createFunctionToLoopPassAdaptor(LICMPass(LICMOptions()),
                                                 /*UseMemorySSA=*/true));
  passes.addPass(EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(ADCEPass());
  for (Function &function : module)
    if (!function.isDeclaration())
      passes.run(function, functionAnalyses);
}

Error emitObject(Module &module, TargetMachine &machine,
                 SmallVectorImpl<char> &bytes, bool assembly) {
  raw_svector_ostream stream(bytes);
  legacy::PassManager passes;
  CodeGenFileType type =
      assembly ? CodeGenFileType::AssemblyFile : CodeGenFileType::ObjectFile;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type,
                                  /*DisableVerify=*/true))
    return createStringError("LLVM can't emit this kind of file for %s",
                             machine.getTargetTriple().str().c_str());
  passes.run(module);
  return Error::success();
}

} // namespace native
} // namespace anabranch
