//===- OpTable.h - which operators run in our own kernels -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The table has one row for each operator and overload. The row lowers the
// operator, lets capture keep it whole, makes its test against eager PyTorch,
// and is its line in docs/operators.md. The table is built on first use and
// then only read, by any thread.

#ifndef ANABRANCH_IMPORT_LOWERING_OPTABLE_H
#define ANABRANCH_IMPORT_LOWERING_OPTABLE_H

#include "import/lowering/Lowering.h"
#include "llvm/ADT/StringMap.h"
#include <vector>

namespace anabranch {
namespace importer {

struct OpRow {
  /// The name in `anabranch.aten`: "add.Tensor", "mm".
  std::string name;
  /// The family that registered the row: "pointwise", "view".
  llvm::StringRef family;
  LoweringFn lower;
  /// The dtypes that all tensor operands and results may have.
  DTypeSet dtypes = AllDTypes;
  /// Arguments of calls for the generated test, as Python expressions. `T(3,
  /// 4)` is a random tensor of the dtype under test, `P(3, 4)` a positive one,
  /// `B(3, 4)` a bool tensor, `I(n, 3, 4)` int64 with values in [0, n), `F(3,
  /// 4)` float32, `dtype` the dtype under test. ';' separates samples. Empty if
  /// the operator has no test of its own.
  std::string samples;
  /// PyTorch can take the operator apart before the compiler sees it, by Core
  /// ATen's decompositions or in autograd. Capture keeps it whole.
  bool isKeptWhole = false;
};

class OpTable {
public:
  /// The table of all families.
  static const OpTable &get();

  const OpRow *lookup(llvm::StringRef name) const;
  /// The rows in the order of registration.
  const std::vector<OpRow> &rows() const { return table; }

  /// Sets the family of the rows that follow, and the dtypes of those that name
  /// none.
  void family(llvm::StringRef name, DTypeSet dtypes = AllDTypes) {
    current = name;
    usual = dtypes;
  }
  /// The dtypes of the family.
  static constexpr DTypeSet ofFamily = 0;
  void add(llvm::StringRef name, LoweringFn lower, llvm::StringRef samples = "",
           DTypeSet dtypes = ofFamily);
  /// Adds an operator that stays whole (OpRow::isKeptWhole).
  void addWhole(llvm::StringRef name, LoweringFn lower,
                llvm::StringRef samples = "", DTypeSet dtypes = ofFamily);

private:
  std::vector<OpRow> table;
  llvm::StringMap<size_t> index;
  llvm::StringRef current;
  DTypeSet usual = AllDTypes;
};

/// The table as a JSON list of objects with `op`, `family`, `dtypes`, `samples`
/// and `whole`.
std::string describeOpTable();

/// The families, each in its own file under families/.
void registerPointwise(OpTable &table);
void registerPowers(OpTable &table);
void registerActivation(OpTable &table);
void registerComparison(OpTable &table);
void registerReduction(OpTable &table);
void registerScans(OpTable &table);
void registerCreation(OpTable &table);
void registerViews(OpTable &table);
void registerSlices(OpTable &table);
void registerJoins(OpTable &table);
void registerGather(OpTable &table);
void registerMatmul(OpTable &table);
void registerGroupedMatmul(OpTable &table);
void registerSoftmax(OpTable &table);
void registerNormalization(OpTable &table);
void registerAttention(OpTable &table);
void registerScatter(OpTable &table);
void registerIndexPut(OpTable &table);
void registerConvolution(OpTable &table);
void registerPooling(OpTable &table);
void registerTopK(OpTable &table);
void registerSort(OpTable &table);
void registerComplexViews(OpTable &table);
void registerFourier(OpTable &table);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_LOWERING_OPTABLE_H
