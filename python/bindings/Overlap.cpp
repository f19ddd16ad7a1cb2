//===- Overlap.cpp - whether a result is a view of an argument ------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "Overlap.h"

using namespace anabranch;

namespace {

struct Bytes {
  const char *first, *last;
};

Bytes bytesOf(const TensorView &tensor) {
  int64_t low = 0, high = 1, step = 1;
  for (int32_t d = tensor.rank; d-- > 0;) {
    int64_t stride = tensor.strides ? tensor.strides[d] : step;
    if (tensor.shape[d] == 0)
      return {nullptr, nullptr};
    (stride < 0 ? low : high) += (tensor.shape[d] - 1) * stride;
    step *= tensor.shape[d];
  }
  const char *data = static_cast<const char *>(tensor.data);
  int64_t item = int64_t(itemSize(tensor.dtype));
  return {data + low * item, data + high * item};
}

} // namespace

bool python::overlaps(const TensorView &result, const HostArgument *arguments,
                      size_t count) {
  Bytes own = bytesOf(result);
  for (size_t i = 0; i < count; ++i) {
    if (arguments[i].kind == HostArgument::Kind::List &&
        overlaps(result, arguments[i].items, arguments[i].itemCount))
      return true;
    if (arguments[i].kind != HostArgument::Kind::Tensor)
      continue;
    Bytes other = bytesOf(arguments[i].tensor);
    if (own.first < other.last && other.first < own.last)
      return true;
  }
  return false;
}
