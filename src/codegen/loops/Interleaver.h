//===- Interleaver.h - operations of several runs in turns ------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_LOOPS_INTERLEAVER_H
#define ANABRANCH_CODEGEN_LOOPS_INTERLEAVER_H

#include "mlir/IR/Builders.h"

#include <vector>

namespace anabranch {
namespace codegen {

/// Mixes runs of operations that were written one after the other into one
/// block: operations that do the same for each run come to stand side by side.
/// A run may read what an earlier one made. No run may read memory that another
/// one writes.
class Interleaver {
public:
  explicit Interleaver(mlir::OpBuilder &builder) : builder(builder) {}

  /// `emit` writes a run at the insertion point, and leaves it in its block.
  void add(llvm::function_ref<void()> emit);
  /// Puts the runs in order; the insertion point is behind them.
  void finish();

private:
  mlir::OpBuilder &builder;
  std::vector<llvm::SmallVector<mlir::Operation *>> runs;
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_LOOPS_INTERLEAVER_H
