//===- Extent.cpp - which bytes a buffer and a command touch --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/verify/Extent.h"

#include "anabranch/Tensor.h"

namespace anabranch::package {

Extent extentOf(const int64_t *shape, const int64_t *strides, size_t rank,
                size_t itemBytes) {
  for (size_t i = 0; i < rank; ++i)
    if (shape[i] == 0)
      return {true, 0};
  int64_t last = 0, dense = 1;
  for (size_t i = rank; i-- > 0;) {
    int64_t stride = strides ? strides[i] : dense, step;
    if (shape[i] < 0 || stride < 0 ||
        __builtin_mul_overflow(shape[i] - 1, stride, &step) ||
        __builtin_add_overflow(last, step, &last) ||
        __builtin_mul_overflow(dense, shape[i], &dense))
      return {false, 0};
  }
  int64_t end;
  if (__builtin_add_overflow(last, 1, &last) ||
      __builtin_mul_overflow(last, static_cast<int64_t>(itemBytes), &end))
    return {false, 0};
  return {true, end};
}

bool liesWithin(const Extent &part, int64_t begin, const Extent &whole,
                size_t itemBytes) {
  return part.fits && whole.fits && begin >= 0 &&
         (part.end == 0 ||
          begin <= (whole.end - part.end) / static_cast<int64_t>(itemBytes));
}

std::optional<Extent> staticExtent(DType dtype, const std::vector<Size> &shape,
                                   const std::vector<Size> &strides) {
  std::vector<int64_t> sizes, steps;
  for (const Size &size : shape) {
    if (size.slot() >= 0 || size.value() < 0)
      return std::nullopt;
    sizes.push_back(size.value());
  }
  for (const Size &stride : strides) {
    if (stride.slot() >= 0)
      return std::nullopt;
    steps.push_back(stride.value());
  }
  return extentOf(sizes.data(), steps.empty() ? nullptr : steps.data(),
                  sizes.size(), itemSize(static_cast<anabranch::DType>(dtype)));
}

std::optional<Extent> staticExtent(const BufferT &buffer) {
  return staticExtent(buffer.dtype, buffer.shape, buffer.strides);
}

} // namespace anabranch::package
