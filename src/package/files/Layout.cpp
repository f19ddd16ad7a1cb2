//===- Layout.cpp - how the elements of a tensor lie in memory ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "anabranch/Layout.h"

namespace anabranch {

int64_t elementsOf(const TensorView &tensor) {
  int64_t count = 1;
  for (int32_t d = 0; d < tensor.rank; ++d)
    count *= tensor.shape[d];
  return count;
}

std::vector<int64_t> contiguousStrides(const int64_t *shape, int32_t rank) {
  std::vector<int64_t> strides(static_cast<size_t>(rank));
  int64_t next = 1;
  for (int32_t d = rank; d-- > 0; next *= shape[d])
    strides[d] = next;
  return strides;
}

/// Calls `visit` with the number of each dimension that has several elements,
/// and with its strides in the tensor and in a contiguous one. False for an
/// empty tensor.
template <typename Visit>
static bool forDimensions(const TensorView &tensor, const Visit &visit) {
  int64_t next = 1;
  for (int32_t d = tensor.rank; d-- > 0; next *= tensor.shape[d]) {
    if (tensor.shape[d] == 0)
      return false;
    if (tensor.shape[d] != 1)
      visit(d, tensor.strides ? tensor.strides[d] : next, next);
  }
  return true;
}

bool hasStrides(const TensorView &tensor, const int64_t *strides) {
  bool same = true;
  bool any = forDimensions(tensor, [&](int32_t d, int64_t stride, int64_t) {
    same &= stride == strides[d];
  });
  return same || !any;
}

bool isContiguous(const TensorView &tensor) {
  if (!tensor.strides)
    return true;
  bool same = true;
  bool any = forDimensions(tensor, [&](int32_t, int64_t stride, int64_t next) {
    same &= stride == next;
  });
  return same || !any;
}

int64_t spanOf(const TensorView &tensor) {
  int64_t last = 0;
  bool isNegative = false;
  bool any = forDimensions(tensor, [&](int32_t d, int64_t stride, int64_t) {
    isNegative |= stride < 0;
    last += (tensor.shape[d] - 1) * stride;
  });
  return any && !isNegative ? last + 1 : 0;
}

} // namespace anabranch
