//===- LaneRows.h - rows from memory to lanes, and back ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_FFT_LANEROWS_H
#define ANABRANCH_FFT_LANEROWS_H

#include "fft/Butterflies.h"

namespace anabranch::fft {
namespace {

/// The lower and the upper halves of two vectors, in turns.
template <typename T> struct Interleaved {
  Vector<T> low, high;
};

template <typename T>
inline Interleaved<T> interleave(Vector<T> a, Vector<T> b) {
  if constexpr (lanes<T> == 2)
    return {__builtin_shufflevector(a, b, 0, 2),
            __builtin_shufflevector(a, b, 1, 3)};
  else if constexpr (lanes<T> == 4)
    return {__builtin_shufflevector(a, b, 0, 4, 1, 5),
            __builtin_shufflevector(a, b, 2, 6, 3, 7)};
  else if constexpr (lanes<T> == 8)
    return {__builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11),
            __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)};
  else
    return {__builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5,
                                    21, 6, 22, 7, 23),
            __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                                    13, 29, 14, 30, 15, 31)};
}

/// Transposes the square of as many vectors as each has lanes. To put the first
/// half of the vectors in turns with the second half is one step of a perfect
/// shuffle, of which a transposition has as many as the width has bits.
template <typename T> inline void transpose(Vector<T> *square) {
  constexpr int64_t width = lanes<T>;
  for (int64_t step = 1; step < width; step *= 2) {
    Vector<T> made[width];
    for (int64_t i = 0; i < width / 2; ++i) {
      Interleaved<T> pair = interleave<T>(square[i], square[i + width / 2]);
      made[2 * i] = pair.low;
      made[2 * i + 1] = pair.high;
    }
    for (int64_t i = 0; i < width; ++i)
      square[i] = made[i];
  }
}

template <typename T> inline Vector<T> load(const T *from) {
  return *reinterpret_cast<const Vector<T> *>(from);
}

template <typename T> inline void store(T *to, Vector<T> value) {
  *reinterpret_cast<Vector<T> *>(to) = value;
}

/// One plane of a job: where the rows of a group lie.
template <typename T> struct Plane {
  T *first; ///< of the group's first row
  int64_t pitch;
  bool across;
};

/// Calls `take(k, vector)` for the elements 0 <= k < count of a group of rows.
/// Rows are padded, so that elements beyond may be read.
template <typename T, typename Take>
inline void readPlane(Plane<const T> plane, int64_t count, Take take) {
  if (plane.across) {
    for (int64_t k = 0; k < count; ++k)
      take(k, load(plane.first + k * plane.pitch));
    return;
  }
  constexpr int64_t width = lanes<T>;
  for (int64_t start = 0; start < count; start += width) {
    Vector<T> square[width];
    for (int64_t row = 0; row < width; ++row)
      square[row] = load(plane.first + row * plane.pitch + start);
    transpose<T>(square);
    int64_t here = count - start < width ? count - start : width;
    for (int64_t k = 0; k < here; ++k)
      take(start + k, square[k]);
  }
}

/// Writes `give(k)` as the elements 0 <= k < count of a group of rows.
template <typename T, typename Give>
inline void writePlane(Plane<T> plane, int64_t count, Give give) {
  if (plane.across) {
    for (int64_t k = 0; k < count; ++k)
      store(plane.first + k * plane.pitch, give(k));
    return;
  }
  constexpr int64_t width = lanes<T>;
  for (int64_t start = 0; start < count; start += width) {
    Vector<T> square[width];
    for (int64_t k = 0; k < width; ++k)
      square[k] = start + k < count ? give(start + k) : Vector<T>{};
    transpose<T>(square);
    for (int64_t row = 0; row < width; ++row)
      store(plane.first + row * plane.pitch + start, square[row]);
  }
}

} // namespace
} // namespace anabranch::fft

#endif // ANABRANCH_FFT_LANEROWS_H
