//===- TileFootprint.h - the bytes that a tile may touch --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Collects what a tile reads and writes, for the ranges of its loops. Stores
// one bound for each buffer (`anabranch_strided_region` of KernelABI.h).

#ifndef ANABRANCH_KERNELS_FOOTPRINT_TILEFOOTPRINT_H
#define ANABRANCH_KERNELS_FOOTPRINT_TILEFOOTPRINT_H

#include "analysis/AccessMap.h"
#include "kernels/emit/Epilogue.h"
#include "kernels/footprint/StridedRegion.h"

namespace anabranch {
namespace kernels {

class TileFootprint {
public:
  explicit TileFootprint(KernelFunction &function);

  RangeBuilder ranges;

  /// Adds these reads, for all points of the loops.
  void reads(const analysis::Reads &reads, llvm::ArrayRef<IndexRange> loops);
  /// Adds reads of these elements of a tensor, or of the tensors that it is
  /// computed from. Values for which `isLeaf` is true are not followed further.
  void reads(mlir::Value tensor, llvm::ArrayRef<IndexRange> index,
             llvm::function_ref<bool(mlir::Value)> isLeaf);
  /// Adds writes of these elements of the value that `destination` belongs to.
  void writes(const Destination &destination, llvm::ArrayRef<IndexRange> index);
  /// Adds the reads and writes of an epilogue at these elements of the product.
  void epilogue(const Epilogue &epilogue, mlir::Value product,
                llvm::ArrayRef<IndexRange> index);

  /// Writes one entry for every buffer to the array at `footprints`.
  void store(mlir::Value footprints);

private:
  /// The elements of a tensor with an index in the range of each dimension.
  struct Box {
    llvm::SmallVector<IndexRange> dims;
    mlir::Value empty; ///< i1
  };
  RegionBuilder regions;
  KernelFunction &function;
  LaneBuilder &lanes;
  /// By argument. All reads of one argument together are one box.
  llvm::SmallVector<std::optional<Box>> boxes;
  llvm::SmallVector<std::optional<StridedRegion>> results;

  void touch(const analysis::Read &read, const analysis::Reads &all,
             llvm::ArrayRef<IndexRange> loops);
  mlir::Value both(mlir::Value a, mlir::Value b);
  mlir::Value either(mlir::Value a, mlir::Value b);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_FOOTPRINT_TILEFOOTPRINT_H
