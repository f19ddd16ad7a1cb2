//===- Tensor.h - views of tensors that someone else owns -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_TENSOR_H
#define ANABRANCH_TENSOR_H

#include "anabranch/Status.h"

#include <cstddef>
#include <cstdint>

namespace anabranch {

/// The numbers are those of src/package/program.fbs and anabranch.h.
enum class DType : int8_t {
  Bool = 0,
  U8,
  I8,
  I16,
  I32,
  I64,
  F16,
  BF16,
  F32,
  F64,
  U16,
  U32,
  U64,
  C32,
  C64,
  C128,
  F8E4M3FN,
  F8E5M2,
  F8E4M3FNUZ,
  F8E5M2FNUZ
};
inline constexpr int dtypeCount = 20;

/// Bytes of one element.
ANABRANCH_API size_t itemSize(DType dtype);
/// The short name that graphs and messages use, such as "f32".
ANABRANCH_API const char *name(DType dtype);

/// A strided tensor. It owns nothing: data, shape and strides must outlive the
/// call that takes the view. `data` points at the element with index zero.
struct TensorView {
  void *data = nullptr;
  const int64_t *shape = nullptr;
  const int64_t *strides = nullptr; ///< in elements; null: row-major contiguous
  int32_t rank = 0;
  DType dtype = DType::F32;
};

/// Whether the two may share a byte. False only if they share none. It tells
/// apart blocks of rows, blocks of columns, and every n-th element of one
/// tensor.
ANABRANCH_API bool mayOverlap(const TensorView &left, const TensorView &right);

} // namespace anabranch

#endif // ANABRANCH_TENSOR_H
