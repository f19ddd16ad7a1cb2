//===- FftEmitter.h - the loops around a tile's transforms ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_FFT_FFTEMITTER_H
#define ANABRANCH_KERNELS_FFT_FFTEMITTER_H

#include "kernels/emit/Destinations.h"
#include "kernels/emit/Evaluator.h"
#include "kernels/fft/FftRows.h"

namespace anabranch {
namespace kernels {

class FftEmitter {
public:
  FftEmitter(FftRows &rows, const Destination &destination);

  mlir::Value scratchBytes();
  /// Gathers the operands' rows, calls the runtime, and stores the results.
  void emitTile(Evaluator &evaluator, mlir::Value scratch, mlir::Value number);

private:
  FftRows &rows;
  LaneBuilder &lanes;
  const Destination &destination;
  int64_t vectorWidth;
  mlir::Value fromPitch, toPitch; ///< elements; FftJob in KernelABI.h
  mlir::Value fromBytes, toBytes; ///< of one plane

  /// Where the parts of a scratch memory begin.
  struct Scratch {
    mlir::Value job;
    Buffer from[2], to[2];
    mlir::Value work;
  };
  Scratch split(mlir::Value memory);
  Buffer plane(mlir::Value pointer, mlir::Value pitch);

  /// Calls `body` for all elements of the tile's rows, some neighbours at a
  /// time: at which outer position, at which `k` and at which inner position
  /// they are, and at which index of a plane.
  using Body = llvm::function_ref<void(mlir::Value outer, Lanes k, Lanes inner,
                                       mlir::ArrayRef<Lanes> inPlane)>;
  void forElements(const FftRows::Tile &tile, mlir::Value count, Body body);
  void callRuntime(const FftRows::Tile &tile, const Scratch &scratch);
  mlir::Value runtimeFunction();
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_FFT_FFTEMITTER_H
