//===- Interleaver.h - operations of several runs in turns ------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_CONTROL_INTERLEAVER_H
#define ANABRANCH_CODEGEN_CONTROL_INTERLEAVER_H

#include "mlir/IR/Builders.h"

#include <vector>

namespace anabranch {
namespace codegen {

/// Mixes sequences of operations that were emitted one after the other into one
/// block, so that operations which do the same in each sequence become
/// neighbours. A sequence may read values of an earlier one. No sequence may
/// read memory that another one writes.
class Interleaver {
public:
  explicit Interleaver(mlir::OpBuilder &builder) : builder(builder) {}

  /// `emit` emits a sequence at the insertion point, within one block.
  void add(llvm::function_ref<void()> emit);
  /// Interleaves the sequences. The insertion point is behind them.
  void finish();

private:
  mlir::OpBuilder &builder;
  std::vector<llvm::SmallVector<mlir::Operation *>> runs;
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_CONTROL_INTERLEAVER_H
