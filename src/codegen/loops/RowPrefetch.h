//===- RowPrefetch.h - the next row on its way early ------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A processor prefetches within a page, so each row that begins a page is a
// cache miss. The last nest that reads a row prefetches the same elements of
// the next row.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_LOOPS_ROWPREFETCH_H
#define ANABRANCH_CODEGEN_LOOPS_ROWPREFETCH_H

#include "codegen/loops/LoopContext.h"

namespace anabranch {
namespace codegen {

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
  bool isLastRead(const LoopNest &member, mlir::Value tensor) const;
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_LOOPS_ROWPREFETCH_H
