//===- KernelModel.h - the loop nests of a kernel ---------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// What a kernel function on tensors needs loops for, and how the loops hang
// together. Nothing is emitted here, so that the tile function and the plan
// function agree on the grid.
//
// A *nest* is an operation with loops of its own: a reduction, a scan, a
// scatter, the writing of a result, or the filling of a row buffer. Nests that
// read each other form a *group*. The *rows* of a group are loops that all its
// nests share one-to-one: one pass over a row runs every nest for that row, so
// what passes between nests is as large as a row. A group without rows runs
// each nest as a whole, in one tile: the reference for everything.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_LOOPS_KERNELMODEL_H
#define ANABRANCH_CODEGEN_LOOPS_KERNELMODEL_H

#include "codegen/emit/Reads.h"
#include "codegen/target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <memory>
#include <vector>

namespace anabranch {
namespace codegen {

/// A tensor's dimension: where a loop's trip count is found.
struct DimOf {
  mlir::Value tensor;
  int64_t dimension;
};

/// Which dimensions of two tensors are the same size, whatever that is.
class SizeClasses {
public:
  explicit SizeClasses(mlir::func::FuncOp source);
  /// Equal numbers: equal sizes.
  unsigned classOf(DimOf dim);
  std::optional<int64_t> known(DimOf dim) const;
  bool equal(DimOf a, DimOf b) { return classOf(a) == classOf(b); }

private:
  std::vector<unsigned> parent;
  std::map<std::pair<const void *, int64_t>, unsigned> numbers;

  unsigned number(const void *key, int64_t detail);
  unsigned root(unsigned number);
  unsigned numberOf(DimOf dim);
  unsigned numberOf(mlir::OpFoldResult size, const void *otherwise,
                    int64_t detail);
  void unite(unsigned a, unsigned b);
};

/// Where a value is written: result `result` of the kernel, seen through the
/// views `path` that lead from the returned value back to the written one.
struct Destination {
  unsigned result;
  llvm::SmallVector<mlir::Operation *> path;
};

struct Nest {
  enum class Kind { Reduce, Scan, Scatter, Write, Keep };
  Kind kind;
  /// Reduce, Scan, Scatter: the operation. Write and Keep: null.
  mlir::Operation *op = nullptr;
  /// Write, Keep: the value; else the first result.
  mlir::Value value;

  struct Loop {
    DimOf size;
    bool parallel;
    int row = -1; ///< number of the group's row that it is
  };
  llvm::SmallVector<Loop> loops;
  /// Reduce, Scan: the loop of each dimension of the result.
  llvm::SmallVector<unsigned> resultLoops;
  Reads reads;
  /// Where this value goes besides the nests that read it.
  llvm::SmallVector<Destination> destinations;
  /// Keep: the nest in whose loops it is filled.
  Nest *filledBy = nullptr;
  /// Keeps that this nest fills.
  llvm::SmallVector<Nest *> fills;
  /// Nests of a group run level by level.
  unsigned level = 0;
  /// Read by another nest, so its value must be kept.
  bool isRead = false;

  mlir::linalg::GenericOp generic() const {
    return mlir::dyn_cast_or_null<mlir::linalg::GenericOp>(op);
  }
  /// Loops that are no rows.
  llvm::SmallVector<unsigned> innerLoops() const;
  std::optional<unsigned> loopOfRow(unsigned row) const;
};

/// Rows next to each other that run as one loop; the last one counts.
struct Row {
  llvm::SmallVector<unsigned> rows;
};

/// A read whose lanes lie far apart while its neighbours in memory are the
/// positions of another row.
struct TurnedRead {
  mlir::BlockArgument tensor;
  /// The row of each dimension's index.
  llvm::SmallVector<unsigned> rows;
  unsigned along; ///< the dimension whose neighbours are neighbours in memory
};

struct Group {
  llvm::SmallVector<Nest *> nests; ///< in order of level
  unsigned rowCount = 0;
  llvm::SmallVector<DimOf> rowSizes;
  llvm::SmallVector<Row> rows; ///< outermost first
  /// The row whose neighbours are the lanes; -1: each nest vectorises a loop of
  /// its own.
  int laneRow = -1;
  int64_t width = 1;
  /// Native vectors that `width` is made of.
  int64_t vectors = 1;
  /// The row that runs in blocks of `width` so that `turned` are loaded as
  /// squares of vectors and transposed in registers; -1: none.
  int blockRow = -1;
  llvm::SmallVector<TurnedRead> turned;
  /// True if some access jumps over cache lines from lane to lane.
  bool strided = false;
};

struct KernelModel {
  mlir::func::FuncOp source;
  std::unique_ptr<SizeClasses> sizes;
  std::vector<std::unique_ptr<Nest>> nests;
  std::vector<Group> groups;

  /// The nest that makes this value, or null.
  Nest *nestOf(mlir::Value value) const;

  static mlir::FailureOr<KernelModel> build(mlir::func::FuncOp source,
                                            const TargetInfo &target);
};

/// Which of the nest's loops has the lanes when the group has none; none: it
/// runs element by element.
std::optional<unsigned> laneLoopOf(KernelModel &model, const Group &group,
                                   const Nest &nest);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_LOOPS_KERNELMODEL_H
