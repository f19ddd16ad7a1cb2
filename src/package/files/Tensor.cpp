//===- Tensor.cpp - element types, and do tensors overlap? ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "anabranch/Tensor.h"

#include <algorithm>

namespace anabranch {

namespace {
struct Row {
  const char *name;
  size_t bytes;
};
constexpr Row rows[dtypeCount] = {
    {"bool", 1},     {"u8", 1},     {"i8", 1},         {"i16", 2},
    {"i32", 4},      {"i64", 8},    {"f16", 2},        {"bf16", 2},
    {"f32", 4},      {"f64", 8},    {"u16", 2},        {"u32", 4},
    {"u64", 8},      {"c32", 4},    {"c64", 8},        {"c128", 16},
    {"f8e4m3fn", 1}, {"f8e5m2", 1}, {"f8e4m3fnuz", 1}, {"f8e5m2fnuz", 1}};

bool known(DType dtype) {
  return static_cast<int>(dtype) >= 0 && static_cast<int>(dtype) < dtypeCount;
}
} // namespace

size_t itemSize(DType dtype) {
  return known(dtype) ? rows[static_cast<int>(dtype)].bytes : 0;
}

const char *name(DType dtype) {
  return known(dtype) ? rows[static_cast<int>(dtype)].name : "unknown";
}

namespace {

/// The bytes from `first` to before `last`; empty for an empty tensor.
struct Extent {
  intptr_t first = 0, last = 0;
  bool meets(const Extent &other) const {
    return first < other.last && other.first < last;
  }
};

/// Calls `visit` with the elements and the stride in bytes of each dimension
/// that has several elements. False for an empty tensor.
template <typename Visit>
bool forExtents(const TensorView &tensor, const Visit &visit) {
  auto dense = static_cast<int64_t>(itemSize(tensor.dtype));
  int64_t item = dense;
  for (int32_t d = tensor.rank; d-- > 0;) {
    int64_t size = tensor.shape[d];
    if (size <= 0)
      return false;
    int64_t stride = tensor.strides ? tensor.strides[d] * item : dense;
    if (size > 1)
      visit(size, stride);
    dense *= size;
  }
  return true;
}

/// The bytes of a tensor, without the dimensions whose strides are multiples of
/// `period`. A period of 0 keeps all dimensions.
Extent extentOf(const TensorView &tensor, int64_t period) {
  auto data = reinterpret_cast<intptr_t>(tensor.data);
  Extent extent{data, data + static_cast<intptr_t>(itemSize(tensor.dtype))};
  bool any = forExtents(tensor, [&](int64_t size, int64_t stride) {
    if (period == 0 || stride % period != 0)
      (stride < 0 ? extent.first : extent.last) += (size - 1) * stride;
  });
  return any ? extent : Extent();
}

int64_t longestStride(const TensorView &tensor) {
  int64_t longest = 0;
  forExtents(tensor, [&](int64_t, int64_t stride) {
    longest = std::max(longest, stride < 0 ? -stride : stride);
  });
  return longest;
}

} // namespace

bool mayOverlap(const TensorView &left, const TensorView &right) {
  Extent l = extentOf(left, 0), r = extentOf(right, 0);
  if (!l.meets(r))
    return false;
  // The bytes of both tensors repeat with the longest stride, so one period is
  // compared.
  int64_t period = std::max(longestStride(left), longestStride(right));
  if (period == 0)
    return true;
  l = extentOf(left, period);
  r = extentOf(right, period);
  intptr_t length = r.last - r.first;
  intptr_t distance = (r.first - l.first) % period;
  r.first = l.first + (distance < 0 ? distance + period : distance);
  r.last = r.first + length;
  return r.first < l.last || r.last > l.first + period;
}

} // namespace anabranch
