//===- GroupEmitter.h - the loops of a group --------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_LOOPS_GROUPEMITTER_H
#define ANABRANCH_CODEGEN_LOOPS_GROUPEMITTER_H

#include "codegen/emit/Evaluator.h"
#include "codegen/loops/KernelModel.h"
#include "codegen/loops/TileGrid.h"

namespace anabranch {
namespace codegen {

class GroupEmitter {
public:
  GroupEmitter(KernelModel &model, const Group &group, Evaluator &evaluator,
               mlir::Value scratchPointer);

  /// All rows of one tile; `tile` is an index below the grid's `tiles`.
  void emitTile(mlir::Value tile);

private:
  /// A loop of a bundle: loops of each member that run as one, the last
  /// counting; by member.
  struct BundleLoop {
    llvm::SmallVector<llvm::SmallVector<unsigned>> loops;
    bool parallel;
    bool hasLanes = false;
  };
  /// Nests that run in the same loops.
  struct Bundle {
    llvm::SmallVector<Nest *> members;
    llvm::SmallVector<BundleLoop> outer; ///< around the accumulators
    llvm::SmallVector<BundleLoop> inner; ///< that they run over
    bool splitsLanes = false;            ///< lanes are partial accumulators
  };
  using Point = llvm::SmallVector<Lanes>;
  using Values = llvm::SmallVector<mlir::Value>;

  KernelModel &model;
  const Group &group;
  Evaluator &evaluator;
  KernelFrame &frame;
  LaneBuilder &lanes;
  mlir::Value scratchPointer;
  TileGrid grid;
  Scratch scratch;
  llvm::SmallVector<Lanes> rowIndex; ///< by row number
  llvm::DenseMap<const Nest *, llvm::SmallVector<Buffer>> targets;
  llvm::DenseMap<mlir::Value, Buffer> kept;

  // Rows
  void prepareBuffers();
  void emitRows(const TilePart &part);
  void setRow(const Row &row, Lanes index);
  void emitLaneRow(const TilePart &part);
  void emitRow();

  // Blocks of rows (GroupBlocks.cpp)
  void emitBlock();
  void emitTurned(mlir::Value first);

  // Bundles
  std::vector<Bundle> bundles(llvm::ArrayRef<Nest *> nests);
  bool canBundle(const Nest &a, const Nest &b);
  void makeLoops(Bundle &bundle);
  void emitBundle(Bundle &bundle);
  llvm::SmallVector<Point> rowPoints(const Bundle &bundle);
  mlir::Value tripCount(const Bundle &bundle, const BundleLoop &loop);
  void setLoop(const BundleLoop &loop, llvm::MutableArrayRef<Point> points,
               Lanes index);
  void emitOuter(Bundle &bundle, llvm::MutableArrayRef<Point> points,
                 size_t depth);

  // Long sums (GroupSums.cpp)
  Values neutral(const Bundle &bundle);
  Values combineAll(const Bundle &bundle, mlir::ValueRange left,
                    mlir::ValueRange right);
  bool isLongSum(const Bundle &bundle);
  using PieceFn =
      llvm::function_ref<Values(mlir::Value, mlir::Value, mlir::ValueRange)>;
  Values inPieces(const Bundle &bundle, mlir::Value low, mlir::Value high,
                  int64_t step, mlir::ValueRange carried, PieceFn body);

  // Bodies
  Values initial(Bundle &bundle, llvm::ArrayRef<Point> points);
  Values emitInner(Bundle &bundle, llvm::MutableArrayRef<Point> points,
                   size_t depth, mlir::ValueRange carried);
  Values emitSplit(Bundle &bundle, llvm::MutableArrayRef<Point> points,
                   const BundleLoop &loop, mlir::ValueRange carried);
  Values step(Bundle &bundle, llvm::ArrayRef<Point> points,
              mlir::ValueRange carried);
  Values stepReduce(Bundle &bundle, Nest &nest, llvm::ArrayRef<Lanes> point,
                    mlir::ValueRange carried);
  Values finish(Bundle &bundle, llvm::ArrayRef<Point> points,
                mlir::ValueRange carried);
  void fillKeeps(Nest &nest, llvm::ArrayRef<Lanes> point);
  Lanes valueOf(Nest &nest, llvm::ArrayRef<Lanes> point);
  void deliver(Nest &nest, mlir::Value result, llvm::ArrayRef<Lanes> index,
               Lanes value);
  void bindResult(Nest &nest);
  void emitScatter(Nest &nest);
  void scatterInto(Nest &nest, const Buffer &buffer);
  void copyInit(Nest &nest, const Buffer &buffer);
  Point keptIndex(const Nest &nest, llvm::ArrayRef<Lanes> index);

  /// Runs `body` over [low, high) by vectors of `width`, the last one masked.
  using VectorBody = llvm::function_ref<Values(Lanes index, mlir::ValueRange)>;
  Values vectorLoop(mlir::Value low, mlir::Value high, bool exact, bool heavy,
                    mlir::ValueRange carried, VectorBody body);
  /// Whether the body is too long to be copied for the last vector, or to be
  /// unrolled.
  static constexpr int64_t longBody = 40, shortBody = 8;
  int64_t operations() const;
  static int64_t operations(const Bundle &bundle);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_LOOPS_GROUPEMITTER_H
