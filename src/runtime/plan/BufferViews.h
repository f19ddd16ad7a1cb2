//===- BufferViews.h - the tensors of one call ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_PLAN_BUFFERVIEWS_H
#define ANABRANCH_RUNTIME_PLAN_BUFFERVIEWS_H

#include "anabranch/HostCalls.h"

namespace anabranch::runtime {

/// The buffers of a program in one call.
class BufferViews {
public:
  virtual ~BufferViews() = default;

  /// A view of the buffer with its declared shape and strides. If the run
  /// decides a size: with those that it has, contiguous.
  virtual TensorView viewOf(int buffer) const = 0;

  /// Makes a tensor of the host the value of an External buffer. The call owns
  /// it from now on.
  virtual void keep(int buffer, const HostResult &made) = 0;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_PLAN_BUFFERVIEWS_H
