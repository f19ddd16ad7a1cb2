//===- OpTable.cpp - which operators run in our own kernels ---------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "import/OpTable.h"

namespace anabranch {
namespace importer {

const OpTable &OpTable::get() {
  static const OpTable table = [] {
    OpTable all;
    registerPointwise(all);
    registerActivation(all);
    registerComparison(all);
    registerReduction(all);
    registerCreation(all);
    registerViews(all);
    registerSlices(all);
    registerJoins(all);
    registerGather(all);
    registerMatmul(all);
    registerSoftmax(all);
    registerNormalization(all);
    registerAttention(all);
    return all;
  }();
  return table;
}

const OpRow *OpTable::lookup(llvm::StringRef name) const {
  auto it = index.find(name);
  return it == index.end() ? nullptr : &table[it->second];
}

void OpTable::add(llvm::StringRef name, LoweringFn lower,
                  llvm::StringRef samples, DTypeSet dtypes) {
  bool isNew = index.try_emplace(name, table.size()).second;
  assert(isNew && "two rows for one operator");
  (void)isNew;
  table.push_back(
      {name.str(), current, std::move(lower), dtypes, samples.str()});
}

} // namespace importer
} // namespace anabranch
