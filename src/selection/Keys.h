//===- Keys.h - numbers as unsigned integers of the same order --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
//   -2.5 < -0.0 = 0.0 < 1.0 < inf < NaN      as floats
//   keyOf(-2.5) < keyOf(-0.0) = ...          as u64
//
// Every NaN has the largest key.

#ifndef ANABRANCH_SELECTION_KEYS_H
#define ANABRANCH_SELECTION_KEYS_H

#include "anabranch/Tensor.h"

#include <cstdint>

namespace anabranch::selection {

constexpr uint64_t nanKey = ~uint64_t(0);

enum class Order { LeastFirst, LargestFirst };

/// Whether numbers of this dtype have keys.
bool hasKeys(DType dtype);

/// Whether the dtype has NaN: equal keys `nanKey` are then different numbers.
bool hasNan(DType dtype);

/// Writes the key of each of `count` contiguous numbers to `keys`, of which the
/// next lies `step` words after one.
void writeKeys(const void *numbers, DType dtype, int64_t count, uint64_t *keys,
               int64_t step);

/// The key of a number that stands at a place.
struct Placed {
  uint64_t key;
  int64_t place;
};

inline uint64_t keyOf(const Placed &entry) { return entry.key; }

/// Writes the key and the place of each of `count` contiguous numbers.
void writePlaced(const void *numbers, DType dtype, int64_t count,
                 Placed *entries);

/// Writes the number of each key.
void writeNumbers(const uint64_t *keys, DType dtype, int64_t count,
                  void *numbers);

} // namespace anabranch::selection

#endif // ANABRANCH_SELECTION_KEYS_H
