//===- KernelShell.h - the functions around a kernel's loops ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
//   NAME(buffers, sizes, scratch, tile)      loads the pointers, calls
//   NAME_tile(pointers..., sizes, scratch, tile)   internal, pointers noalias
//   NAME_setup(buffers, sizes, scratch)      likewise, calls
//   NAME_share(pointers..., sizes, scratch)        internal, pointers noalias
//   NAME_plan(sizes, plan)
//   NAME_footprint(sizes, tile, regions)
//
// NAME_setup is made only if the kernel has something that its tiles share, and
// NAME_footprint only if it has the attribute `anabranch.footprint`.
//
// The pointers are arguments of a function, so that LLVM may assume that no two
// of them overlap. A result in place of an argument shares that argument's
// pointer.

#ifndef ANABRANCH_KERNELS_EMIT_KERNELSHELL_H
#define ANABRANCH_KERNELS_EMIT_KERNELSHELL_H

#include "kernels/emit/Evaluator.h"

namespace anabranch {
namespace kernels {

struct KernelShell {
  mlir::func::FuncOp source;
  const native::TargetInfo &target;

  /// Everything that the body of the tile function, or of the setup, is written
  /// with.
  struct TileBody {
    KernelFunction &function;
    Evaluator &evaluator;
    mlir::Value scratch; ///< !llvm.ptr
    mlir::Value tile;    ///< index; null in a setup
  };
  /// The values that the plan function returns, as index values.
  struct Grid {
    mlir::Value tiles;
    mlir::Value scratchBytes;
  };

  /// Everything that the body of the footprint function is written with.
  /// Buffers start at address zero.
  struct FootprintBody {
    KernelFunction &function;
    mlir::Value tile;       ///< index
    mlir::Value footprints; ///< !llvm.ptr
  };

  /// Creates the functions before `source`, and calls the callbacks to write
  /// their bodies. `setup` is null if tiles share nothing.
  mlir::LogicalResult emit(llvm::function_ref<void(TileBody &)> tile,
                           llvm::function_ref<Grid(KernelFunction &)> plan,
                           llvm::function_ref<void(FootprintBody &)> footprint,
                           llvm::function_ref<void(TileBody &)> setup = {});
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_EMIT_KERNELSHELL_H
