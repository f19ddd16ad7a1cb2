//===- StridedCopy.h - copy a tensor into another layout --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_DEVICE_STRIDEDCOPY_H
#define ANABRANCH_RUNTIME_DEVICE_STRIDEDCOPY_H

#include "anabranch/Tensor.h"

namespace anabranch::runtime {

/// Copies a tensor. Both views have the same dtype and shape, at most 64
/// dimensions and no negative strides. Their bytes must not overlap, unless the
/// views are equal.
void stridedCopy(const TensorView &from, const TensorView &to);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_DEVICE_STRIDEDCOPY_H
