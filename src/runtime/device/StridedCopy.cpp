//===- StridedCopy.cpp - copy a tensor into another layout ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/device/StridedCopy.h"

#include <algorithm>
#include <cstring>

namespace anabranch::runtime {

namespace {

struct Dim {
  int64_t size, from, to; ///< strides in bytes
};

constexpr int maxRank = 64;

/// Copies `count` elements of N bytes along one dimension.
template <size_t N> void copyLine(const char *from, char *to, const Dim &dim) {
  for (int64_t i = 0; i < dim.size; ++i)
    std::memcpy(to + i * dim.to, from + i * dim.from, N);
}

void copyInner(const char *from, char *to, const Dim &dim, size_t bytes) {
  auto item = static_cast<int64_t>(bytes);
  if (dim.from == item && dim.to == item) {
    std::memmove(to, from, static_cast<size_t>(dim.size) * bytes);
    return;
  }
  switch (bytes) {
  case 1:
    return copyLine<1>(from, to, dim);
  case 2:
    return copyLine<2>(from, to, dim);
  case 4:
    return copyLine<4>(from, to, dim);
  case 8:
    return copyLine<8>(from, to, dim);
  default:
    return copyLine<16>(from, to, dim);
  }
}

/// Orders the dimensions by the destination's strides, outermost first. Merges
/// neighbours that are contiguous in both tensors. Returns the number of
/// dimensions left.
int simplify(Dim *dims, int count) {
  std::sort(dims, dims + count, [](const Dim &a, const Dim &b) {
    return a.to != b.to ? a.to > b.to : a.from > b.from;
  });
  int kept = 0;
  for (int i = 0; i < count; ++i) {
    if (dims[i].size == 1)
      continue;
    Dim *outer = kept ? &dims[kept - 1] : nullptr;
    if (outer && outer->from == dims[i].from * dims[i].size &&
        outer->to == dims[i].to * dims[i].size)
      *outer = {outer->size * dims[i].size, dims[i].from, dims[i].to};
    else
      dims[kept++] = dims[i];
  }
  return kept;
}

} // namespace

void stridedCopy(const TensorView &from, const TensorView &to) {
  Dim dims[maxRank];
  auto item = static_cast<int64_t>(itemSize(from.dtype));
  int64_t dense = item;
  for (int i = from.rank; i-- > 0;) {
    if (from.shape[i] == 0)
      return;
    dims[i] = {from.shape[i], from.strides ? from.strides[i] * item : dense,
               to.strides ? to.strides[i] * item : dense};
    dense *= from.shape[i];
  }
  int rank = simplify(dims, from.rank);
  auto *source = static_cast<const char *>(from.data);
  auto *target = static_cast<char *>(to.data);
  if (rank == 0) {
    std::memmove(target, source, static_cast<size_t>(item));
    return;
  }
  // The position in all dimensions but the innermost, counted up like an
  // odometer.
  int64_t at[maxRank] = {};
  for (;;) {
    copyInner(source, target, dims[rank - 1], static_cast<size_t>(item));
    int d = rank - 2;
    for (; d >= 0; --d) {
      source += dims[d].from;
      target += dims[d].to;
      if (++at[d] < dims[d].size)
        break;
      source -= dims[d].from * dims[d].size;
      target -= dims[d].to * dims[d].size;
      at[d] = 0;
    }
    if (d < 0)
      return;
  }
}

} // namespace anabranch::runtime
