//===- AccessMap.h - what a loop nest reads, and where ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// At which index, as a function of the loops, does a kernel read each argument
// and each value that has loops of its own? ReadCollector walks through the
// producers as the evaluator will, but emits nothing. The shared dimensions,
// the vector dimension and the size of a tile follow from the reads it finds.

#ifndef ANABRANCH_ANALYSIS_ACCESSMAP_H
#define ANABRANCH_ANALYSIS_ACCESSMAP_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/AffineExpr.h"
#include "llvm/ADT/SmallBitVector.h"

#include <functional>

namespace anabranch {
namespace analysis {

/// An index as a function of the loops.
struct SymbolicIndex {
  mlir::AffineExpr expr;      ///< null if it depends on data
  llvm::SmallBitVector loops; ///< that the index depends on

  /// The loop that this index equals, if it equals one.
  std::optional<unsigned> plainLoop() const;
  /// By how much the index grows with each step of this loop: 0, a constant, or
  /// none if it depends on the loop in another way. A remainder grows as its
  /// dividend does and a quotient stays constant: both hold for all but a few
  /// lanes.
  std::optional<int64_t> growth(unsigned loop) const;
};

struct Read {
  mlir::Value tensor; ///< an argument, or a value that `isLeaf` accepts
  llvm::SmallVector<SymbolicIndex> index;
  /// True if the kernel reads the tensor only where the index lies inside it.
  bool isGuarded = false;
};

struct Reads {
  llvm::SmallVector<Read> reads;
  /// Loops whose number is used as a value, not only as an index.
  llvm::SmallBitVector numbered;
  /// Operations per point, as OperationCost.h counts them. An operation that
  /// costs nothing counts as one here, since it makes the code longer.
  int64_t operations = 0;
  /// Generics that are costly to repeat, by their first result, and where they
  /// are read.
  llvm::SmallVector<Read> expensive;
  /// The kernel's scalar for each symbol of the indices.
  llvm::SmallVector<mlir::Value> symbols;
};

class ReadCollector {
public:
  /// The collector does not look through values for which `isLeaf` is true.
  ReadCollector(mlir::MLIRContext *context, unsigned loops,
                std::function<bool(mlir::Value)> isLeaf)
      : context(context), loops(loops), isLeaf(std::move(isLeaf)) {
    reads.numbered.resize(loops);
  }

  /// The loops themselves as indices.
  llvm::SmallVector<SymbolicIndex> identity();
  llvm::SmallVector<SymbolicIndex> apply(mlir::AffineMap map,
                                         mlir::ArrayRef<SymbolicIndex> point);

  void visit(mlir::Value tensor, mlir::ArrayRef<SymbolicIndex> index);
  /// A generic's body, without its outputs unless `withOutputs`.
  void visitBody(mlir::linalg::GenericOp op,
                 mlir::ArrayRef<SymbolicIndex> point, bool withOutputs);
  /// Any region of index and element computations (scatter).
  void visitRegion(mlir::Block &block, mlir::ArrayRef<SymbolicIndex> arguments,
                   mlir::ArrayRef<SymbolicIndex> point);

  Reads take() { return std::move(reads); }

private:
  mlir::MLIRContext *context;
  unsigned loops;
  std::function<bool(mlir::Value)> isLeaf;
  Reads reads;
  llvm::SmallVector<Read> visited;
  bool isGuarded = false;

  bool isNew(mlir::Value tensor, mlir::ArrayRef<SymbolicIndex> index);
  SymbolicIndex unknown();
  SymbolicIndex constant(int64_t value);
  SymbolicIndex size(mlir::OpFoldResult size);
  SymbolicIndex dim(mlir::Value tensor, int64_t dimension);
  SymbolicIndex combine(mlir::AffineExprKind kind, SymbolicIndex a,
                        SymbolicIndex b);
  SymbolicIndex depend(mlir::ArrayRef<SymbolicIndex> on);
  void visitView(mlir::Operation *op, mlir::ArrayRef<SymbolicIndex> index);
};

} // namespace analysis
} // namespace anabranch

#endif // ANABRANCH_ANALYSIS_ACCESSMAP_H
