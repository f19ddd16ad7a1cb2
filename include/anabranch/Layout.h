//===- Layout.h - how the elements of a tensor lie in memory ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_LAYOUT_H
#define ANABRANCH_LAYOUT_H

#include "anabranch/Tensor.h"

#include <vector>

namespace anabranch {

/// The product of the sizes.
ANABRANCH_API int64_t elementsOf(const TensorView &tensor);

/// The strides of a contiguous tensor, in elements.
ANABRANCH_API std::vector<int64_t> contiguousStrides(const int64_t *shape,
                                                     int32_t rank);

/// Whether an element has the same place with these strides. The strides of
/// empty tensors and of dimensions with one element do not matter.
ANABRANCH_API bool hasStrides(const TensorView &tensor, const int64_t *strides);
ANABRANCH_API bool isContiguous(const TensorView &tensor);

/// Elements from the first to the last one that the strides reach, both
/// included. Zero for an empty tensor, and for a negative stride.
ANABRANCH_API int64_t spanOf(const TensorView &tensor);

} // namespace anabranch

#endif // ANABRANCH_LAYOUT_H
