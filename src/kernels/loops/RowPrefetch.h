//===- RowPrefetch.h - the next row on its way early ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A processor prefetches within a page, and forgets a stream that other loops
// interrupt. So where several nests read a row one after the other, the next
// row begins with cache misses: the last of them prefetches the same elements
// of that row. A nest that alone reads its rows is one stream, which the
// processor follows; prefetches would take its time.

#ifndef ANABRANCH_KERNELS_LOOPS_ROWPREFETCH_H
#define ANABRANCH_KERNELS_LOOPS_ROWPREFETCH_H

#include "kernels/groups/LoopContext.h"

namespace anabranch {
namespace kernels {

/// Prefetches what fused nests read at the next position of the shared loops.
class RowPrefetch {
public:
  RowPrefetch(LoopContext &context, const FusedNests &nests);

  /// Prefetches the next row at this point of a member's loops, for those reads
  /// of the member that are the last of their rows.
  void emit(const LoopNest &member, llvm::ArrayRef<Lanes> point) const;

private:
  /// A member's read of an argument along a row.
  struct RowRead {
    const LoopNest *member;
    mlir::BlockArgument tensor;
    llvm::SmallVector<unsigned> loops; ///< the member's loops, by dimension
    unsigned rowDim; ///< the dimension that the next position moves along
  };

  LoopContext &context;
  const FusedNests &nests;
  llvm::SmallVector<RowRead> rows;

  void collect(const LoopNest &member, const LoopNest &reader);
  std::optional<RowRead> rowRead(const LoopNest &member, const LoopNest &reader,
                                 const analysis::Read &read) const;
  bool isLastOfSeveral(const LoopNest &member, mlir::Value tensor) const;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_LOOPS_ROWPREFETCH_H
