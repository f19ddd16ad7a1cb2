//===- KernelModel.h - the loop nests of a kernel ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The loops that a kernel function on tensors needs, and how they belong
// together. Nothing is emitted here: the tile function and the plan function
// read the same model, and so agree on the grid.
//
// A *loop nest* is an operation with loops of its own: a reduction, a scan, a
// scatter, the writing of a result, or the filling of a temporary. Nests that
// read each other form a *group*. The *shared dimensions* of a group are
// parallel loops that all its nests have one-to-one: one pass over a position
// runs every nest there, so a value that passes between nests has no shared
// dimension. A group without shared dimensions runs each nest as a whole, in
// one tile.

#ifndef ANABRANCH_KERNELS_NESTS_KERNELMODEL_H
#define ANABRANCH_KERNELS_NESTS_KERNELMODEL_H

#include "analysis/AccessMap.h"
#include "analysis/SizeClasses.h"
#include "kernels/emit/Destinations.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <memory>
#include <vector>

namespace anabranch {
namespace kernels {

struct LoopNest {
  enum class Kind { Reduce, Scan, Scatter, Write, Temporary };
  Kind kind;
  /// Reduce, Scan, Scatter: the operation. Write and Temporary: null.
  mlir::Operation *op = nullptr;
  /// Write, Temporary: the value. Others: the operation's first result.
  mlir::Value value;

  struct Loop {
    analysis::DimOf size;
    bool parallel;
    int shared = -1; ///< the group's shared dimension; -1: none
  };
  llvm::SmallVector<Loop> loops;
  /// Reduce, Scan, Scatter: the loop of each dimension of the result.
  llvm::SmallVector<unsigned> resultLoops;
  analysis::Reads reads;
  /// Where this value is written, besides the nests that read it.
  llvm::SmallVector<Destination> destinations;
  /// Temporary: the nest whose loops fill it.
  LoopNest *filledBy = nullptr;
  /// Temporaries that this nest fills.
  llvm::SmallVector<LoopNest *> fills;
  /// Nests of a group run level by level.
  unsigned level = 0;
  /// Another nest reads the value, so it must be stored.
  bool isRead = false;

  mlir::linalg::GenericOp generic() const {
    return mlir::dyn_cast_or_null<mlir::linalg::GenericOp>(op);
  }
  /// Loops that are no shared dimensions.
  llvm::SmallVector<unsigned> innerLoops() const;
  std::optional<unsigned> loopOfShared(unsigned dim) const;
};

/// Neighbouring shared dimensions that run as one loop. The last one has the
/// position; the others stay at zero.
struct SharedLoop {
  llvm::SmallVector<unsigned> dims;
};

/// A read whose lanes lie far apart, while neighbours in memory lie along
/// another shared dimension.
struct TransposedLoad {
  mlir::BlockArgument tensor;
  /// The shared dimension of each index.
  llvm::SmallVector<unsigned> dims;
  unsigned along; ///< the index along which neighbours are neighbours in memory
};

struct NestGroup {
  llvm::SmallVector<LoopNest *> nests; ///< in order of level
  unsigned sharedCount = 0;            ///< of shared dimensions
  llvm::SmallVector<analysis::DimOf> sharedSizes;
  llvm::SmallVector<SharedLoop> sharedLoops; ///< outermost first
  /// The shared loop along which the lanes are neighbours; -1: each nest
  /// vectorises a loop of its own.
  int laneLoop = -1;
  int64_t width = 1;
  /// The number of native vectors in `width` lanes.
  int64_t vectors = 1;
  /// The shared loop of which one vector of lanes runs `blockSize` positions at
  /// once; -1: none.
  int blockLoop = -1;
  int64_t blockSize = 1;
  /// If there are any, blocks have `width` positions: they are loaded as
  /// squares of vectors and transposed in registers. Otherwise the positions
  /// share the values that they all read.
  llvm::SmallVector<TransposedLoad> transposedLoads;
  /// The positions of a block are neighbours in memory wherever a lane writes,
  /// as the channels of a point of an image are. They are written together.
  bool interleavesStores = false;
  /// If positive, the reductions of the first level go through their tensors
  /// row by row. A tile then keeps partial results of all its lanes, in so many
  /// levels, and adds `rowsAtOnce` rows in registers.
  int64_t rowLevels = 0;
  int64_t rowsAtOnce = 1;
  /// True if an access goes to another cache line in each lane.
  bool strided = false;
  /// The group is one scatter, which runs the lane loop inside its own loops:
  /// it goes through its tensors row by row.
  bool lanesInside = false;
  /// The group is one scatter without shared loops. Each tile has a range of
  /// this loop of it; -1: none.
  int rangedLoop = -1;
};

struct KernelModel {
  mlir::func::FuncOp source;
  std::unique_ptr<analysis::SizeClasses> sizes;
  std::vector<std::unique_ptr<LoopNest>> nests;
  std::vector<NestGroup> groups;

  /// The nest that makes this value, or null.
  LoopNest *nestOf(mlir::Value value) const;
  /// The trip count of a shared loop of the group, if it is known.
  std::optional<int64_t> knownSize(const NestGroup &group,
                                   const SharedLoop &loop) const;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_NESTS_KERNELMODEL_H
