//===- Convolution.h - a convolution while it is lowered --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_LOWERING_CONVOLUTION_H
#define ANABRANCH_IMPORT_LOWERING_CONVOLUTION_H

#include "import/lowering/Lowering.h"

namespace anabranch {
namespace importer {

struct Convolution {
  Operand input, weight, bias;
  llvm::SmallVector<int64_t> stride, padding, dilation;
  int64_t groups, spatial;
  bool transposed = false; ///< the weight is [inputs, outputs of a group, ...]
  Sizes sizes;
  DType result;
  /// The value of the padding around the input. Convolutions of integers have
  /// their zero point there.
  double padValue = 0;
  /// Whether depthwise() adds four products of bytes at once, in i32. One of
  /// the operands is unsigned then, the other signed. Else it adds products of
  /// bytes in f32.
  bool dotsBytes = false;

  int64_t channels() const { return weight.size(1); }
  int64_t filters() const { return weight.size(0) / groups; }
  int64_t window(int64_t dim) const { return weight.size(2 + dim); }
  /// The number of points of the window.
  int64_t taps() const;
};

/// The arguments of a call of a convolution. Fails, with the refusal, if no
/// lowering can compute it.
mlir::FailureOr<Convolution> convolutionOf(ir::AtenOp op, LoweringBuilder &b);

/// The result, with bias, of a convolution that is not transposed.
mlir::Value convolve(LoweringBuilder &b, const Convolution &conv);

/// The result of a transposed convolution, made of plain convolutions for parts
/// of it.
Lowered convolveTransposed(LoweringBuilder &b, const Convolution &conv);

/// Whether the window is small enough to unroll.
bool hasFewTaps(const Convolution &conv);

/// Whether each channel has one filter of its own, with few taps.
bool isDepthwise(const Convolution &conv);

/// The result of a depthwise convolution: one elementwise operation that reads
/// every point of the window through a slice, as a pool does. It contracts
/// nothing, and copies the input for no point.
mlir::Value depthwise(LoweringBuilder &b, const Convolution &conv);

/// Whether the convolution should run with its channels last, where a vector
/// covers `channels` of them. It needs a frozen weight and an image of static
/// size.
bool prefersChannelsLast(const Convolution &conv, int64_t channels);

/// The result of a convolution with its channels last: a product between two
/// views.
mlir::Value convolveChannelsLast(LoweringBuilder &b, const Convolution &conv);

/// Whether a convolution that should run with its channels last takes least
/// time with Winograd's transformation: windows of 3x3 at each point, in f32,
/// of so many channels and points that the transformation pays, and of so few
/// that what it makes stays in caches.
bool prefersWinograd(const Convolution &conv);

/// The result of a convolution by Winograd's transformation.
mlir::Value convolveWinograd(LoweringBuilder &b, const Convolution &conv);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_LOWERING_CONVOLUTION_H
