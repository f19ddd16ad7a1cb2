//===- CountOperators.cpp - repeat positions, and count numbers -----------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/operators/CountOperators.h"

#include "runtime/operators/OwnCall.h"
#include "selection/Counts.h"

#include <algorithm>
#include <limits>

namespace anabranch::runtime {

namespace {

template <typename T> void repeat(OwnCall &call, const TensorView &repeats) {
  const T *counts = static_cast<const T *>(repeats.data);
  int64_t size = repeats.shape[0], total = selection::totalOf(counts, size);
  if (total < 0)
    return call.fail("repeats can not be negative, or add up to 2^63 or more");
  if (call.has("output_size") && call.integer("output_size") != total)
    return call.fail("the repeats add up to " + std::to_string(total) +
                     ", not to the output size " +
                     std::to_string(call.integer("output_size")));
  if (void *made = call.make(0, repeats.dtype, {total}))
    selection::repeatPositions(counts, size, total, static_cast<T *>(made));
}

template <typename T, typename Sum>
void countInto(OwnCall &call, const TensorView &numbers, const Sum *weights,
               DType dtype) {
  const T *given = static_cast<const T *>(numbers.data);
  int64_t size = numbers.shape[0];
  selection::Range range = selection::rangeOf(given, size);
  if (range.least < 0)
    return call.fail("bincount only supports 1-d non-negative integral inputs");
  if (range.most == std::numeric_limits<int64_t>::max())
    return call.fail("the number " + std::to_string(range.most) +
                     " is too large for bincount");
  int64_t least = call.integer("minlength");
  if (least < 0)
    return call.fail("minlength should be >= 0");
  int64_t bins = std::max(range.most + 1, least);
  auto *made = static_cast<Sum *>(call.make(0, dtype, {bins}));
  if (!made)
    return;
  std::fill_n(made, bins, Sum(0));
  selection::addToBins(given, weights, size, made, bins);
}

template <typename T> void count(OwnCall &call, const TensorView &numbers) {
  if (!call.has("weights"))
    return countInto<T, int64_t>(call, numbers, nullptr, DType::I64);
  TensorView weights = call.tensor("weights");
  if (call.ok() && shapeOf(weights) != shapeOf(numbers))
    call.fail("weights should be 1-d and have the same length as input");
  if (!call.ok())
    return;
  if (weights.dtype == DType::F32)
    return countInto<T>(call, numbers, static_cast<const float *>(weights.data),
                        DType::F32);
  if (weights.dtype == DType::F64)
    return countInto<T>(call, numbers,
                        static_cast<const double *>(weights.data), DType::F64);
  call.fail("takes weights of f32 and f64");
}

} // namespace

void runRepeatInterleave(OwnCall &call) {
  TensorView repeats = call.tensor("repeats");
  if (call.ok() && repeats.rank == 1 && repeats.dtype == DType::I32)
    repeat<int32_t>(call, repeats);
  else if (call.ok() && repeats.rank == 1 && repeats.dtype == DType::I64)
    repeat<int64_t>(call, repeats);
  else
    call.fail("repeats must be a vector of i32 or i64");
}

void runBincount(OwnCall &call) {
  TensorView numbers = call.tensor("self");
  if (call.ok() && numbers.rank != 1)
    call.fail("bincount only supports 1-d non-negative integral inputs");
  if (!call.ok())
    return;
  switch (numbers.dtype) {
  case DType::U8:
    return count<uint8_t>(call, numbers);
  case DType::I8:
    return count<int8_t>(call, numbers);
  case DType::I16:
    return count<int16_t>(call, numbers);
  case DType::I32:
    return count<int32_t>(call, numbers);
  case DType::I64:
    return count<int64_t>(call, numbers);
  default:
    call.fail("bincount only supports 1-d non-negative integral inputs");
  }
}

} // namespace anabranch::runtime
