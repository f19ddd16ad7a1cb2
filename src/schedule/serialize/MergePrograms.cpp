//===- MergePrograms.cpp - programs of one graph in one module ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/serialize/MergePrograms.h"

#include "schedule/program/KernelSignature.h"
#include "schedule/program/SizeTable.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <map>

using namespace mlir;

namespace anabranch {
namespace schedule {
namespace {

class Merger {
public:
  explicit Merger(ModuleOp into) : into(into) {
    for (auto function : into.getOps<func::FuncOp>()) {
      names.insert(function.getSymName());
      if (isKernel(function))
        kernels.try_emplace(signatureOf(function), function.getSymName());
    }
  }

  void merge(ModuleOp from) {
    renamed.clear();
    for (auto function :
         llvm::make_early_inc_range(from.getOps<func::FuncOp>()))
      take(function);
    for (auto program :
         llvm::make_early_inc_range(from.getOps<ir::ProgramOp>())) {
      rename(program);
      program->moveBefore(into.getBody(), into.getBody()->end());
    }
  }

private:
  static bool isKernel(func::FuncOp function) {
    return function->hasAttr("anabranch.kernel");
  }

  static std::vector<uintptr_t> signatureOf(func::FuncOp kernel) {
    SignatureBuilder signature;
    signature.add(Type(kernel.getFunctionType()));
    signature.add(Attribute(kernel.getArgAttrsAttr()));
    signature.add(Attribute(kernel.getResAttrsAttr()));
    signature.addRegion(kernel.getBody());
    return std::move(signature.words);
  }

  void take(func::FuncOp function) {
    std::string old = function.getSymName().str(), own, *name = &own;
    if (isKernel(function))
      name = &kernels[signatureOf(function)];
    bool known = !name->empty();
    if (!known)
      *name = unique(old);
    renamed[old] = *name;
    if (known)
      return function.erase();
    function.setSymName(*name);
    function->moveBefore(into.getBody(), into.getBody()->end());
  }

  std::string unique(const std::string &name) {
    std::string made = name;
    for (int i = 1; !names.insert(made).second; ++i)
      made = name + "_v" + std::to_string(i);
    return made;
  }

  void rename(ir::ProgramOp program) {
    auto changed = [&](FlatSymbolRefAttr old) {
      return FlatSymbolRefAttr::get(old.getContext(),
                                    renamed.lookup(old.getValue()));
    };
    if (FlatSymbolRefAttr sizes = program.getSizesFunctionAttr())
      program.setSizesFunctionAttr(changed(sizes));
    program.walk([&](ir::LaunchOp launch) {
      launch.setKernelAttr(changed(launch.getKernelAttr()));
    });
  }

  ModuleOp into;
  llvm::StringSet<> names;
  std::map<std::vector<uintptr_t>, std::string> kernels;
  llvm::StringMap<std::string> renamed; ///< in the module being merged
};

} // namespace

void mergePrograms(MutableArrayRef<OwningOpRef<ModuleOp>> modules) {
  Merger merger(*modules.front());
  for (OwningOpRef<ModuleOp> &module : modules.drop_front())
    merger.merge(*module);
}

} // namespace schedule
} // namespace anabranch
