//===- BufferViews.h - the tensors of one call ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_PLAN_BUFFERVIEWS_H
#define ANABRANCH_RUNTIME_PLAN_BUFFERVIEWS_H

#include "anabranch/Tensor.h"

namespace anabranch::runtime {

/// The buffers of a program in one call.
class BufferViews {
public:
  virtual ~BufferViews() = default;

  /// A view of the buffer with its declared shape and strides.
  virtual TensorView viewOf(int buffer) const = 0;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_PLAN_BUFFERVIEWS_H
