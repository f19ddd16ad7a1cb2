//===- TileFootprint.h - the bytes that a tile may touch --------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Collects what a tile reads and writes, for the ranges of its loops, and hands
// out one bound for each buffer (`anabranch_strided_region` of KernelABI.h).
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_FOOTPRINT_TILEFOOTPRINT_H
#define ANABRANCH_CODEGEN_FOOTPRINT_TILEFOOTPRINT_H

#include "analysis/AccessMap.h"
#include "codegen/emit/Epilogue.h"
#include "codegen/footprint/StridedRegion.h"

namespace anabranch {
namespace codegen {

class TileFootprint {
public:
  explicit TileFootprint(KernelFrame &frame);

  RangeBuilder ranges;

  /// The tile reads this for all points of the loops.
  void reads(const analysis::Reads &reads, llvm::ArrayRef<IndexRange> loops);
  /// The tile reads these elements of a tensor or of what it is made from.
  /// `isLeaf` says what is not followed further.
  void reads(mlir::Value tensor, llvm::ArrayRef<IndexRange> index,
             llvm::function_ref<bool(mlir::Value)> isLeaf);
  /// The tile writes these elements of the value that goes there.
  void writes(const Destination &destination, llvm::ArrayRef<IndexRange> index);
  /// The tile does this with these elements of the product.
  void epilogue(const Epilogue &epilogue, mlir::Value product,
                llvm::ArrayRef<IndexRange> index);

  /// Writes an entry for every buffer to the array that `footprints` points at.
  void store(mlir::Value footprints);

private:
  /// Elements of a tensor: those with an index in the range of each dimension.
  struct Box {
    llvm::SmallVector<IndexRange> dims;
    mlir::Value empty; ///< i1
  };
  RegionBuilder regions;
  KernelFrame &frame;
  LaneBuilder &lanes;
  /// By argument; what a tile reads of one is one box.
  llvm::SmallVector<std::optional<Box>> boxes;
  llvm::SmallVector<std::optional<StridedRegion>> results;

  void touch(const analysis::Read &read, const analysis::Reads &all,
             llvm::ArrayRef<IndexRange> loops);
  mlir::Value both(mlir::Value a, mlir::Value b);
  mlir::Value either(mlir::Value a, mlir::Value b);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_FOOTPRINT_TILEFOOTPRINT_H
