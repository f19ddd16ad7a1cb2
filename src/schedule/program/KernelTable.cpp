//===- KernelTable.cpp - dispatches become kernels, equal ones once -------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/program/KernelTable.h"
#include "schedule/program/KernelSignature.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// The name without the number that the graph gave it: "add_3" is its fourth
/// `add`.
static StringRef withoutNumber(StringRef name) {
  size_t end = name.find_last_not_of("0123456789");
  if (end != StringRef::npos && name[end] == '_' && end > 0)
    return name.take_front(end);
  return name;
}

std::string operatorNames(Location location, StringRef separator,
                          unsigned limit) {
  llvm::SetVector<StringRef> names;
  location->walk([&](Location inner) {
    if (auto name = dyn_cast<NameLoc>(inner))
      names.insert(withoutNumber(name.getName().getValue()));
    return WalkResult::advance();
  });
  ArrayRef<StringRef> shown = names.getArrayRef();
  return llvm::join(shown.take_front(limit), separator);
}

std::string KernelTable::uniqueName(ir::DispatchOp dispatch) {
  std::string name = operatorNames(dispatch.getLoc(), "_", 4);
  for (char &c : name)
    if (!llvm::isAlnum(c))
      c = '_';
  if (name.empty())
    name = "kernel";
  // The prefix "k_" keeps the symbol apart from those of libc and libm.
  name = "k_" + name.substr(0, 60);
  return name + "_" + std::to_string(names[name]++);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

KernelTable::KernelTable(ModuleOp module) : builder(module.getBodyRegion()) {
  builder.setInsertionPointToEnd(module.getBody());
}

func::FuncOp KernelTable::getOrCreate(ir::DispatchOp dispatch,
                                      const KernelLayout &layout) {
  SignatureBuilder signature;
  for (DenseI64ArrayAttr strides : layout.inputStrides)
    signature.add(Attribute(strides));
  for (auto [strides, input] :
       llvm::zip(layout.resultStrides, layout.inPlace)) {
    signature.add(Attribute(strides));
    signature.add(static_cast<uintptr_t>(input));
  }
  signature.addRegion(dispatch.getBody());
  func::FuncOp &kernel = kernels[std::move(signature.words)];
  if (!kernel)
    kernel = create(dispatch, layout);
  return kernel;
}

func::FuncOp KernelTable::create(ir::DispatchOp dispatch,
                                 const KernelLayout &layout) {
  Location loc = dispatch.getLoc();
  Block &body = dispatch.getBody().front();
  auto type = builder.getFunctionType(body.getArgumentTypes(),
                                      dispatch.getResultTypes());
  auto kernel = builder.create<func::FuncOp>(loc, uniqueName(dispatch), type);
  kernel->setAttr("anabranch.kernel", builder.getUnitAttr());
  for (auto [i, strides] : llvm::enumerate(layout.inputStrides))
    if (strides)
      kernel.setArgAttr(i, "anabranch.strides", strides);
  for (auto [i, strides] : llvm::enumerate(layout.resultStrides))
    if (strides)
      kernel.setResultAttr(i, "anabranch.strides", strides);
  for (auto [i, input] : llvm::enumerate(layout.inPlace))
    if (input >= 0)
      kernel.setResultAttr(i, "anabranch.in_place",
                           builder.getI64IntegerAttr(input));

  OpBuilder inner(builder.getContext());
  Block *entry = kernel.addEntryBlock();
  inner.setInsertionPointToEnd(entry);
  IRMapping mapping;
  mapping.map(body.getArguments(), entry->getArguments());
  for (Operation &op : body.without_terminator())
    inner.clone(op, mapping);
  SmallVector<Value> results;
  for (Value result : body.getTerminator()->getOperands())
    results.push_back(mapping.lookup(result));
  inner.create<func::ReturnOp>(loc, results);
  return kernel;
}

} // namespace schedule
} // namespace anabranch
