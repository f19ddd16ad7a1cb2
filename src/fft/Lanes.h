//===- Lanes.h - rows of one job, several at a time -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A group of rows is transformed at once: each lane of a vector has a row of
// its own, so every operation of a transform is one of vectors. LaneCode.h has
// the code, which is compiled once for each width of vectors.

#ifndef ANABRANCH_FFT_LANES_H
#define ANABRANCH_FFT_LANES_H

#include "fft/Plan.h"

namespace anabranch::fft {

/// The bytes to which rows and pitches of a job are rounded up: those of the
/// widest vectors.
constexpr int64_t widestVector = 64;

enum class Kind { Complex, RealToHalf, HalfToReal };

/// Rows to transform. A real row has `length` numbers, a half spectrum
/// `length / 2 + 1`. Planes start at multiples of `widestVector`, and the
/// number of rows and the pitches are such multiples.
template <typename T> struct Job {
  Kind kind;
  int64_t length;
  bool inverse;
  T scale;
  /// Of `length`, or of half of it: a real row of even length is a complex one.
  const Plan<T> *plan;
  const T *halving; ///< halvingTwiddles, of such rows

  int64_t rows;
  /// Neighbours of a row are `pitch` elements apart, and neighbouring rows one;
  /// otherwise it is the other way round.
  bool across;
  const T *from[2]; ///< real and imaginary parts; a real row has no second
  T *to[2];
  int64_t fromPitch, toPitch;
  T *work; ///< as in anabranch_fft_job
};

template <typename T> using RunJob = void (*)(const Job<T> &);

/// The code for the widest vectors that this processor has.
struct LaneCode {
  RunJob<float> runFloat;
  RunJob<double> runDouble;
};
const LaneCode &laneCode();

/// The code for vectors of so many bytes, in files of their own. Null if the
/// file was compiled for a processor without them.
const LaneCode *laneCode16();
const LaneCode *laneCode32();
const LaneCode *laneCode64();

} // namespace anabranch::fft

#endif // ANABRANCH_FFT_LANES_H
