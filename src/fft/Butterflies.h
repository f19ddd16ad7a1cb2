//===- Butterflies.h - transforms of a few points, in registers -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Everything here is internal to the file that includes it: files that are
// compiled for different vectors share no function.

#ifndef ANABRANCH_FFT_BUTTERFLIES_H
#define ANABRANCH_FFT_BUTTERFLIES_H

#include "fft/Plan.h"

#ifndef ANABRANCH_FFT_VECTOR_BYTES
#error "the file that includes this says how wide its vectors are"
#endif

namespace anabranch::fft {
namespace {

template <typename T> struct VectorOf;
template <> struct VectorOf<float> {
  typedef float Type __attribute__((vector_size(ANABRANCH_FFT_VECTOR_BYTES)));
};
template <> struct VectorOf<double> {
  typedef double Type __attribute__((vector_size(ANABRANCH_FFT_VECTOR_BYTES)));
};
template <typename T> using Vector = typename VectorOf<T>::Type;

template <typename T>
constexpr int64_t lanes = ANABRANCH_FFT_VECTOR_BYTES / int64_t(sizeof(T));

/// One complex number in each lane.
template <typename T> struct Point {
  Vector<T> re, im;

  Point operator+(Point other) const { return {re + other.re, im + other.im}; }
  Point operator-(Point other) const { return {re - other.re, im - other.im}; }
  Point operator*(T factor) const { return {re * factor, im * factor}; }
  /// The product with the number whose parts lie at `factor`.
  Point operator*(const T *factor) const {
    return {re * factor[0] - im * factor[1], re * factor[1] + im * factor[0]};
  }
  Point conjugate() const { return {re, -im}; }
  Point swapped() const { return {im, re}; }
  Point timesI() const { return {-im, re}; }
  Point timesMinusI() const { return {im, -re}; }
};

/// The forward transform of `radix` points, in place.
template <typename T, int64_t radix> struct Butterfly;

template <typename T> struct Butterfly<T, 2> {
  static void run(Point<T> *x, const T *) {
    Point<T> sum = x[0] + x[1];
    x[1] = x[0] - x[1];
    x[0] = sum;
  }
};

template <typename T> struct Butterfly<T, 4> {
  static void run(Point<T> *x, const T *) {
    Point<T> a = x[0] + x[2], b = x[0] - x[2];
    Point<T> c = x[1] + x[3], d = (x[1] - x[3]).timesMinusI();
    x[0] = a + c;
    x[1] = b + d;
    x[2] = a - c;
    x[3] = b - d;
  }
};

template <typename T> struct Butterfly<T, 8> {
  static void run(Point<T> *x, const T *) {
    constexpr T half = T(0.70710678118654752440084436210485L);
    Point<T> even[4] = {x[0], x[2], x[4], x[6]};
    Point<T> odd[4] = {x[1], x[3], x[5], x[7]};
    Butterfly<T, 4>::run(even, nullptr);
    Butterfly<T, 4>::run(odd, nullptr);
    odd[1] = (odd[1] + odd[1].timesMinusI()) * half;
    odd[2] = odd[2].timesMinusI();
    odd[3] = (odd[3].timesMinusI() - odd[3]) * half;
    for (int j = 0; j < 4; ++j) {
      x[j] = even[j] + odd[j];
      x[j + 4] = even[j] - odd[j];
    }
  }
};

/// An odd number of points. The sums and the differences of opposite points
/// give the parts of a result and of the opposite one.
template <typename T>
inline void combineOdd(int64_t radix, Point<T> *x, Point<T> *made,
                       const T *roots) {
  int64_t half = radix / 2;
  for (int64_t i = 1; i <= half; ++i) {
    Point<T> a = x[i], b = x[radix - i];
    x[i] = a + b;
    x[radix - i] = (a - b).timesMinusI();
  }
  made[0] = x[0];
  for (int64_t i = 1; i <= half; ++i)
    made[0] = made[0] + x[i];
  for (int64_t j = 1; j <= half; ++j) {
    Point<T> even = x[0], odd = x[radix - 1] * roots[2 * j + 1];
    even = even + x[1] * roots[2 * j];
    for (int64_t i = 2, at = 2 * j; i <= half; ++i, at += j) {
      at -= at >= radix ? radix : 0;
      even = even + x[i] * roots[2 * at];
      odd = odd + x[radix - i] * roots[2 * at + 1];
    }
    made[j] = even + odd;
    made[radix - j] = even - odd;
  }
}

template <typename T, int64_t radix> struct Butterfly {
  static void run(Point<T> *x, const T *roots) {
    Point<T> made[radix];
    combineOdd(radix, x, made, roots);
    for (int64_t j = 0; j < radix; ++j)
      x[j] = made[j];
  }
};

} // namespace
} // namespace anabranch::fft

#endif // ANABRANCH_FFT_BUTTERFLIES_H
