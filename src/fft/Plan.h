//===- Plan.h - the tables of the transforms of one length ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A length whose prime factors are small is transformed in stages (Stockham):
// a stage of radix p combines p points at a time, and the points end in order.
// Any other length becomes a convolution with a chirp (Bluestein), which
// transforms of a longer, smooth length compute.
//
// Tables are computed in a wider type than their elements have, from angles in
// the first eighth of a turn.

#ifndef ANABRANCH_FFT_PLAN_H
#define ANABRANCH_FFT_PLAN_H

#include <cstdint>
#include <memory>
#include <vector>

namespace anabranch::fft {

/// The largest prime that a stage has as its radix. For larger ones the
/// convolution takes fewer operations.
constexpr int64_t largestRadix = 61;

template <typename T> struct Stage {
  int64_t radix;
  /// The transforms of the stage: each combines `radix` runs of `stride`
  /// points.
  int64_t count, stride;
  /// exp(-2 pi i j k / (radix * count)) for 0 <= k < count and 1 <= j < radix,
  /// real part first.
  std::vector<T> twiddles;
  /// cos and sin of 2 pi j / radix, of an odd radix.
  std::vector<T> roots;
};

/// Forward transforms of `length` points, without a scale. Immutable.
template <typename T> struct Plan {
  explicit Plan(int64_t length);

  int64_t length;
  std::vector<Stage<T>> stages;

  /// For lengths with a large prime factor: the transforms of the convolution,
  /// the chirp exp(-pi i k^2 / length), and the transform of its conjugate,
  /// divided by the length of the convolution.
  std::shared_ptr<const Plan> convolution;
  std::vector<T> chirp, spectrum;
};

/// exp(-2 pi i k / length) for k up to half the length: what makes the spectrum
/// of `length` real numbers from that of half as many complex ones.
template <typename T> std::vector<T> halvingTwiddles(int64_t length);

/// The length of the convolution for this length; zero if it needs none.
int64_t convolutionLength(int64_t length);

} // namespace anabranch::fft

#endif // ANABRANCH_FFT_PLAN_H
