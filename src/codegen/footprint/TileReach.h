//===- TileReach.h - the bytes that a tile may touch ------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Collects what a tile reads and writes, for the ranges of its loops, and hands
// out one bound for each buffer (`anabranch_reach` of KernelABI.h).
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_FOOTPRINT_TILEREACH_H
#define ANABRANCH_CODEGEN_FOOTPRINT_TILEREACH_H

#include "codegen/emit/Epilogue.h"
#include "codegen/emit/Reads.h"
#include "codegen/footprint/Runs.h"

namespace anabranch {
namespace codegen {

class TileReach {
public:
  explicit TileReach(KernelFrame &frame);

  RangeBuilder ranges;

  /// The tile reads this for all points of the loops.
  void reads(const Reads &reads, llvm::ArrayRef<IndexRange> loops);
  /// The tile reads these elements of a tensor or of what it is made from.
  /// `isLeaf` says what is not followed further.
  void reads(mlir::Value tensor, llvm::ArrayRef<IndexRange> index,
             llvm::function_ref<bool(mlir::Value)> isLeaf);
  /// The tile writes these elements of the value that goes there.
  void writes(const Destination &destination, llvm::ArrayRef<IndexRange> index);
  /// The tile does this with these elements of the product.
  void epilogue(const Epilogue &epilogue, mlir::Value product,
                llvm::ArrayRef<IndexRange> index);

  /// Writes an entry for every buffer to the array that `reaches` points at.
  void store(mlir::Value reaches);

private:
  /// Elements of a tensor: those with an index in the range of each dimension.
  struct Box {
    llvm::SmallVector<IndexRange> dims;
    mlir::Value empty; ///< i1
  };
  RunBuilder runs;
  KernelFrame &frame;
  LaneBuilder &lanes;
  /// By argument; what a tile reads of one is one box.
  llvm::SmallVector<std::optional<Box>> boxes;
  llvm::SmallVector<std::optional<Runs>> results;

  void touch(const Read &read, const Reads &all,
             llvm::ArrayRef<IndexRange> loops);
  mlir::Value both(mlir::Value a, mlir::Value b);
  mlir::Value either(mlir::Value a, mlir::Value b);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_FOOTPRINT_TILEREACH_H
