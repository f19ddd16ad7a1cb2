//===- ObjectKey.cpp - what a kernel's machine code depends on ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/object/ObjectKey.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace anabranch {
namespace native {
namespace {

/// The functions of the one kernel in `module`; none if the module has anything
/// else, or calls functions.
SmallVector<func::FuncOp> functionsOf(ModuleOp module, StringRef name) {
  SmallVector<func::FuncOp> functions;
  bool isKernel = false;
  for (Operation &op : *module.getBody()) {
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function || !function.getSymName().starts_with(name))
      return {};
    isKernel |= function->hasAttr("anabranch.kernel");
    functions.push_back(function);
  }
  bool calls =
      module.walk([](CallOpInterface) { return WalkResult::interrupt(); })
          .wasInterrupted();
  return isKernel && !calls ? functions : SmallVector<func::FuncOp>();
}

void rename(SmallVector<func::FuncOp> functions, StringRef prefix,
            ArrayRef<std::string> suffixes) {
  for (auto [function, suffix] : llvm::zip(functions, suffixes))
    function.setSymName((prefix + suffix).str());
}

std::string describe(const TargetInfo &target) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << target.triple << ' ' << target.cpu << ' ' << target.features << ' '
         << target.isa().vectorBytes();
  const machine::CpuModel &model = target.model;
  for (double rate : model.rates)
    stream << ' ' << rate;
  stream << ' ' << model.fmaPorts << ' ' << model.l1Load << ' ' << model.l2Load
         << ' ' << model.l3Load << ' ' << model.l1Bytes << ' ' << model.l2Bytes
         << ' ' << model.l3Bytes;
  return text;
}

} // namespace

std::string nameByContents(ModuleOp module, StringRef identity,
                           const TargetInfo &target, KernelObject &object) {
  SmallVector<func::FuncOp> functions = functionsOf(module, object.name);
  if (functions.empty())
    return "";
  std::vector<std::string> suffixes;
  for (func::FuncOp function : functions)
    suffixes.push_back(
        function.getSymName().drop_front(object.name.size()).str());
  rename(functions, "kernel", suffixes);
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, OpPrintingFlags().enableDebugInfo(false));
  // The text shows blobs by name only, not their contents.
  if (StringRef(text).contains("dense_resource<")) {
    rename(functions, object.name, suffixes);
    return "";
  }
  std::string all =
      "1\n" + identity.str() + "\n" + describe(target) + "\n" + text;
  std::string key = llvm::toHex(
      llvm::SHA256::hash(llvm::arrayRefFromStringRef(all)), /*LowerCase=*/true);
  object.symbol = "k_" + key;
  rename(functions, object.symbol, suffixes);
  return key;
}

} // namespace native
} // namespace anabranch
