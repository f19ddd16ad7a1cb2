//===- Convolution.h - a convolution while it is lowered --------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

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

  int64_t channels() const { return weight.size(1); }
  int64_t filters() const { return weight.size(0) / groups; }
  int64_t window(int64_t dim) const { return weight.size(2 + dim); }
  /// Points of the window.
  int64_t taps() const;
};

/// One that is not transposed, with its bias.
mlir::Value convolve(LoweringBuilder &b, const Convolution &conv);

/// One that is, as convolutions for parts of the result.
Lowered convolveTransposed(LoweringBuilder &b, const Convolution &conv);

/// Whether each channel has one filter of its own, with a window small enough
/// to write out.
bool isDepthwise(const Convolution &conv);

/// The result of such a convolution: one elementwise operation that reads every
/// point of the window through a slice, as a pool does. There is nothing to
/// contract, and no copy of the input for each point.
mlir::Value depthwise(LoweringBuilder &b, const Convolution &conv);

/// Whether the channels had better be the last dimension, of which a vector has
/// `channels` at most: a frozen weight and known sizes of an image allow it.
bool prefersChannelsLast(const Convolution &conv, int64_t channels);

/// The result of such a convolution: a product with the channels last, between
/// views.
mlir::Value convolveChannelsLast(LoweringBuilder &b, const Convolution &conv);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_LOWERING_CONVOLUTION_H
