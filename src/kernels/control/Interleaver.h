//===- Interleaver.h - operations of several runs in turns ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_CONTROL_INTERLEAVER_H
#define ANABRANCH_KERNELS_CONTROL_INTERLEAVER_H

#include "mlir/IR/Builders.h"

#include <vector>

namespace anabranch {
namespace kernels {

/// Mixes sequences of operations that were emitted one after the other into one
/// block, so that operations which do the same in each sequence become
/// neighbours. A sequence may read values of an earlier one. No sequence may
/// read memory that another one writes.
class Interleaver {
public:
  explicit Interleaver(mlir::OpBuilder &builder) : builder(builder) {}

  /// `emit` emits a sequence at the insertion point, within one block.
  void add(llvm::function_ref<void()> emit);
  /// Interleaves the sequences. The insertion point is after them.
  void finish();

private:
  mlir::OpBuilder &builder;
  std::vector<llvm::SmallVector<mlir::Operation *>> runs;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_CONTROL_INTERLEAVER_H
