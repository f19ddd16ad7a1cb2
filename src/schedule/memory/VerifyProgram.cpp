//===- VerifyProgram.cpp - what may remain at level "program" -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "ir/Anabranch.h"
#include "ir/PassBase.h"
#include "schedule/memory/Passes.h"
#include "schedule/memory/VerifyPlaces.h"
#include "schedule/program/Dependencies.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace anabranch {
namespace {

/// A launch must overwrite exactly the inputs that its kernel expects to be
/// overwritten. Kernels assume that all other buffers are different memory.
LogicalResult verifyOverwritten(ir::LaunchOp launch, func::FuncOp kernel) {
  for (auto [i, written] : llvm::enumerate(launch.getWrites())) {
    auto input =
        kernel.getResultAttrOfType<IntegerAttr>(i, "anabranch.in_place");
    int64_t expected = input ? input.getInt() : -1;
    for (auto [j, read] : llvm::enumerate(launch.getReads()))
      if ((schedule::memoryOf(read) == schedule::memoryOf(written)) !=
          (static_cast<int64_t>(j) == expected))
        return launch.emitOpError("writes result ")
               << i << " over other inputs than its kernel expects";
  }
  return success();
}

LogicalResult verifyLaunch(ir::LaunchOp launch, SymbolTable &symbols) {
  auto kernel = symbols.lookup<func::FuncOp>(launch.getKernel());
  if (!kernel || !kernel->hasAttr("anabranch.kernel"))
    return launch.emitOpError("launches a symbol that is no kernel");
  size_t tensors = 0, words = 0;
  auto count = [&](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    tensors += !!tensor;
    words += tensor ? tensor.getNumDynamicDims() : 1;
  };
  llvm::for_each(kernel.getArgumentTypes(), count);
  bool inputs = tensors == launch.getReads().size();
  llvm::for_each(kernel.getResultTypes(), count);
  if (!inputs || tensors != launch->getNumOperands() ||
      words != launch.getSizes().size())
    return launch.emitOpError("does not fit the kernel's signature");
  return verifyOverwritten(launch, kernel);
}

LogicalResult verifyProgram(ModuleOp module) {
  int programs = 0;
  SymbolTable symbols(module);
  for (Operation &op : *module.getBody()) {
    if (auto program = dyn_cast<ir::ProgramOp>(op)) {
      ++programs;
      if (failed(schedule::verifyPlaces(program)))
        return failure();
      WalkResult result = program.walk([&](ir::LaunchOp launch) {
        return WalkResult(verifyLaunch(launch, symbols));
      });
      if (result.wasInterrupted())
        return failure();
    } else if (!isa<func::FuncOp>(op)) {
      return op.emitOpError("is not of level \"program\"");
    }
  }
  if (programs != 1)
    return emitError(module.getLoc(), "there must be one program");
  return success();
}

} // namespace

std::unique_ptr<Pass> createVerifyProgramPass() {
  return ir::makePass<ModuleOp>(
      "anabranch-verify-program",
      "fails unless only kernels and a planned program remain", verifyProgram);
}

} // namespace anabranch
