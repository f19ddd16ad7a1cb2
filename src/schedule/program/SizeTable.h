//===- SizeTable.h - sizes that are known at run time only ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The runtime keeps dynamic sizes in a table of int64; a size is a slot of it.
// The runtime reads the first slots from the inputs. The function
// @anabranch_sizes, compiled with the kernels, computes the others. This class
// gives out slots while the program is built, and writes that function.

#ifndef ANABRANCH_SCHEDULE_PROGRAM_SIZETABLE_H
#define ANABRANCH_SCHEDULE_PROGRAM_SIZETABLE_H

#include "ir/Anabranch.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace anabranch {
namespace schedule {

/// The operations of `SizeTable` on two sizes.
enum class SizeOperation : int { Multiply, Add, Max, Align };

class SizeTable {
public:
  static constexpr llvm::StringLiteral functionName = "anabranch_sizes";

  /// Gives a slot to every scalar argument of `main` and to every dynamic
  /// dimension of a tensor argument. A dimension that `anabranch.expect`
  /// declares equal to another size shares its slot.
  explicit SizeTable(mlir::func::FuncOp main);

  /// Continues the table of a program whose sizes function exists (or is null).
  /// Callers can add slots; values of `main` no longer exist.
  SizeTable(mlir::ModuleOp module, int64_t slots);

  /// A literal or a slot for an index value of `main`. Null, with a diagnostic,
  /// if the value is no arithmetic on sizes of inputs.
  mlir::Attribute get(mlir::OpFoldResult size);

  /// The slot of the dimension of an argument, or the literal.
  mlir::Attribute dimOf(mlir::BlockArgument argument, int64_t dim);
  /// True if the runtime reads a slot from this dimension. False if it checks
  /// the dimension against the slot.
  bool definesSlot(mlir::BlockArgument argument, int64_t dim) const {
    return sources.contains({argument, dim});
  }

  // Arithmetic on sizes. Literals are folded; each result is computed once.
  mlir::Attribute multiply(mlir::Attribute a, mlir::Attribute b);
  mlir::Attribute add(mlir::Attribute a, mlir::Attribute b);
  mlir::Attribute max(mlir::Attribute a, mlir::Attribute b);
  /// Rounds up to a multiple of the alignment of buffers.
  mlir::Attribute align(mlir::Attribute a);

  mlir::Attribute literal(int64_t value);
  int64_t slotCount() const { return slots; }
  /// Null if the program computes no slot.
  mlir::func::FuncOp function() const { return sizes; }

private:
  using Key = std::tuple<SizeOperation, mlir::Attribute, mlir::Attribute>;

  using Dim = std::pair<mlir::Value, int64_t>;

  void openFunction();
  mlir::Attribute newSource();
  /// The value inside the sizes function, as index.
  mlir::Value load(mlir::Attribute size);
  mlir::Value cloneArithmetic(mlir::Value value);
  mlir::Attribute store(mlir::Value computed);
  mlir::Attribute combine(SizeOperation operation, mlir::Attribute a,
                          mlir::Attribute b);

  mlir::ModuleOp module;
  mlir::func::FuncOp sizes;
  mlir::OpBuilder builder;
  int64_t slots = 0;
  llvm::DenseMap<mlir::Value, mlir::Attribute> known;
  llvm::DenseMap<Dim, mlir::Attribute> dims;
  llvm::DenseSet<Dim> sources; ///< dimensions that define their slot
  llvm::DenseMap<mlir::Value, mlir::Value> inside;
  llvm::DenseMap<mlir::Attribute, mlir::Value> loaded;
  llvm::DenseMap<Key, mlir::Attribute> combined;
};

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_PROGRAM_SIZETABLE_H
