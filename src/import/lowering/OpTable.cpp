//===- OpTable.cpp - which operators run in our own kernels ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/OpTable.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

namespace anabranch {
namespace importer {

const OpTable &OpTable::get() {
  static const OpTable table = [] {
    OpTable all;
    registerPointwise(all);
    registerPowers(all);
    registerActivation(all);
    registerComparison(all);
    registerReduction(all);
    registerScans(all);
    registerCreation(all);
    registerViews(all);
    registerSlices(all);
    registerJoins(all);
    registerGather(all);
    registerMatmul(all);
    registerGroupedMatmul(all);
    registerSoftmax(all);
    registerNormalization(all);
    registerAttention(all);
    registerScatter(all);
    registerIndexPut(all);
    registerConvolution(all);
    registerPooling(all);
    registerTopK(all);
    registerSort(all);
    registerComplexViews(all);
    registerFourier(all);
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
  table.push_back({name.str(), current, std::move(lower),
                   dtypes == ofFamily ? usual : dtypes, samples.str()});
}

void OpTable::addWhole(llvm::StringRef name, LoweringFn lower,
                       llvm::StringRef samples, DTypeSet dtypes) {
  add(name, std::move(lower), samples, dtypes);
  table.back().isKeptWhole = true;
}

static llvm::json::Array namesOf(DTypeSet dtypes) {
  static constexpr std::pair<DTypeSet, const char *> all[] = {
      {Bool, "bool"},
      {U8, "u8"},
      {I8, "i8"},
      {I16, "i16"},
      {I32, "i32"},
      {I64, "i64"},
      {F16, "f16"},
      {BF16, "bf16"},
      {F32, "f32"},
      {F64, "f64"},
      {C64, "c64"},
      {C128, "c128"},
      {F8E4M3FN, "f8e4m3fn"},
      {F8E5M2, "f8e5m2"},
      {F8E4M3FNUZ, "f8e4m3fnuz"},
      {F8E5M2FNUZ, "f8e5m2fnuz"},
  };
  llvm::json::Array names;
  for (auto [dtype, name] : all)
    if (dtypes & dtype)
      names.push_back(name);
  return names;
}

std::string describeOpTable() {
  llvm::json::Array rows;
  for (const OpRow &row : OpTable::get().rows())
    rows.push_back(llvm::json::Object{{"op", row.name},
                                      {"family", row.family},
                                      {"dtypes", namesOf(row.dtypes)},
                                      {"samples", row.samples},
                                      {"whole", row.isKeptWhole}});
  return llvm::formatv("{0}", llvm::json::Value(std::move(rows)));
}

} // namespace importer
} // namespace anabranch
