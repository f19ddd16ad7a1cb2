//===- KernelTable.h - equal dispatches, one kernel -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_PROGRAM_KERNELTABLE_H
#define ANABRANCH_SCHEDULE_PROGRAM_KERNELTABLE_H

#include "ir/Anabranch.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include <map>
#include <string>
#include <vector>

namespace anabranch {
namespace schedule {

/// The layout of the tensors of one launch, as far as their types do not say
/// it: strides of tensors that are not contiguous (null for others), and for
/// each result the input whose buffer it overwrites, or -1.
struct KernelLayout {
  llvm::SmallVector<mlir::DenseI64ArrayAttr> inputStrides, resultStrides;
  llvm::SmallVector<int64_t> inPlace;
};

/// Makes kernel functions in a module. Dispatches that are equal up to names
/// and locations share a kernel, so compile time does not grow with the number
/// of equal layers.
class KernelTable {
public:
  explicit KernelTable(mlir::ModuleOp module);

  mlir::func::FuncOp getOrCreate(ir::DispatchOp dispatch,
                                 const KernelLayout &layout);

private:
  /// Everything that distinguishes kernels: attributes and types by their
  /// uniqued addresses, values by their numbers.
  using Signature = std::vector<uintptr_t>;

  std::string uniqueName(ir::DispatchOp dispatch);
  mlir::func::FuncOp create(ir::DispatchOp dispatch,
                            const KernelLayout &layout);

  mlir::OpBuilder builder;
  std::map<Signature, mlir::func::FuncOp> kernels;
  llvm::StringMap<int> names;
};

/// At most `limit` names of the operators that a location has, such as
/// "linear_gelu".
std::string operatorNames(mlir::Location location, llvm::StringRef separator,
                          unsigned limit);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_PROGRAM_KERNELTABLE_H
