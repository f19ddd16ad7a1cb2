//===- StridedRegion.h - bytes at equal distances ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_FOOTPRINT_STRIDEDREGION_H
#define ANABRANCH_KERNELS_FOOTPRINT_STRIDEDREGION_H

#include "kernels/emit/Memory.h"
#include "kernels/footprint/IndexRange.h"

namespace anabranch {
namespace kernels {

/// `count` runs of `width` bytes. A run begins `pitch` bytes after the one
/// before. The fields are those of an anabranch_strided_region, as `index`
/// values.
struct StridedRegion {
  mlir::Value offset, width, pitch, count;
};

/// Emits arithmetic on strided regions. A result may contain more bytes than it
/// must, never fewer.
class RegionBuilder {
public:
  explicit RegionBuilder(KernelFunction &function)
      : lanes(function.lanes), ranges(function) {}

  StridedRegion nothing();
  /// The elements whose index is in the range of each dimension; none if
  /// `isEmpty`. The buffer's pointer is its distance from address zero.
  StridedRegion of(llvm::ArrayRef<IndexRange> dims, mlir::Value isEmpty,
                   const Buffer &buffer);
  /// The union of the two.
  StridedRegion unite(const StridedRegion &a, const StridedRegion &b);

private:
  LaneBuilder &lanes;
  RangeBuilder ranges;

  mlir::Value span(const StridedRegion &region);
  StridedRegion hull(mlir::Value a, mlir::Value endA, mlir::Value b,
                     mlir::Value endB);
  StridedRegion joinColumns(const StridedRegion &a, const StridedRegion &b,
                            mlir::Value &fits);
  StridedRegion appendRun(const StridedRegion &a, const StridedRegion &b,
                          mlir::Value &fits);
  StridedRegion merged(const StridedRegion &region, mlir::Value count,
                       mlir::Value stride);
  void addDimension(StridedRegion &region, mlir::Value count,
                    mlir::Value stride);
  using Make = llvm::function_ref<StridedRegion()>;
  StridedRegion choose(mlir::Value condition, Make yes, Make no);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_FOOTPRINT_STRIDEDREGION_H
