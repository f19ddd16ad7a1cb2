//===- KernelShell.h - the functions around a kernel's loops ----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
//   NAME(buffers, sizes, scratch, tile)      loads the pointers, calls
//   NAME_tile(pointers..., sizes, scratch, tile)   internal, pointers noalias
//   NAME_plan(sizes, plan)
//   NAME_footprint(sizes, tile, regions)
//
// The last one is made only if the kernel has the attribute
// `anabranch.footprint`.
//
// The pointers are arguments of a function, so that LLVM may assume that no two
// of them overlap. A result in place of an argument shares that argument's
// pointer.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_EMIT_KERNELSHELL_H
#define ANABRANCH_CODEGEN_EMIT_KERNELSHELL_H

#include "codegen/emit/Evaluator.h"

namespace anabranch {
namespace codegen {

struct KernelShell {
  mlir::func::FuncOp source;
  const TargetInfo &target;

  /// Everything that the body of the tile function is written with.
  struct TileBody {
    KernelFunction &function;
    Evaluator &evaluator;
    mlir::Value scratch; ///< !llvm.ptr
    mlir::Value tile;    ///< index
  };
  /// The values that the plan function returns, as index values.
  struct Plan {
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

  /// Creates the functions before `source`, and calls the three callbacks to
  /// write their bodies.
  mlir::LogicalResult emit(llvm::function_ref<void(TileBody &)> tile,
                           llvm::function_ref<Plan(KernelFunction &)> plan,
                           llvm::function_ref<void(FootprintBody &)> footprint);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_EMIT_KERNELSHELL_H
