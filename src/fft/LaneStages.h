//===- LaneStages.h - the complex transforms of a group of rows -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_FFT_LANESTAGES_H
#define ANABRANCH_FFT_LANESTAGES_H

#include "fft/Butterflies.h"

namespace anabranch::fft {
namespace {

/// Reads the points that one transform of a stage combines, a run at a time,
/// and writes its results side by side.
template <typename T, int64_t radix>
void runStage(const Stage<T> &stage, const Point<T> *from, Point<T> *to) {
  const T *twiddles = stage.twiddles.data(), *roots = stage.roots.data();
  int64_t stride = stage.stride, apart = stage.count * stride;
  for (int64_t k = 0; k < stage.count; ++k, twiddles += 2 * (radix - 1)) {
    const Point<T> *read = from + k * stride;
    Point<T> *write = to + k * radix * stride;
    for (int64_t q = 0; q < stride; ++q) {
      Point<T> x[radix];
      for (int64_t j = 0; j < radix; ++j)
        x[j] = read[q + j * apart];
      Butterfly<T, radix>::run(x, roots);
      write[q] = x[0];
      if (k == 0)
        for (int64_t j = 1; j < radix; ++j)
          write[q + j * stride] = x[j];
      else
        for (int64_t j = 1; j < radix; ++j)
          write[q + j * stride] = x[j] * (twiddles + 2 * (j - 1));
    }
  }
}

/// The same, for any odd radix.
template <typename T>
void runOddStage(const Stage<T> &stage, const Point<T> *from, Point<T> *to) {
  Point<T> x[largestRadix], made[largestRadix];
  const T *twiddles = stage.twiddles.data();
  int64_t radix = stage.radix, apart = stage.count * stage.stride;
  for (int64_t k = 0; k < stage.count; ++k, twiddles += 2 * (radix - 1))
    for (int64_t q = 0; q < stage.stride; ++q) {
      for (int64_t j = 0; j < radix; ++j)
        x[j] = from[q + k * stage.stride + j * apart];
      combineOdd(radix, x, made, stage.roots.data());
      Point<T> *write = to + q + k * radix * stage.stride;
      write[0] = made[0];
      for (int64_t j = 1; j < radix; ++j)
        write[j * stage.stride] = made[j] * (twiddles + 2 * (j - 1));
    }
}

template <typename T>
void runAnyStage(const Stage<T> &stage, const Point<T> *from, Point<T> *to) {
  switch (stage.radix) {
  case 2:
    return runStage<T, 2>(stage, from, to);
  case 3:
    return runStage<T, 3>(stage, from, to);
  case 4:
    return runStage<T, 4>(stage, from, to);
  case 5:
    return runStage<T, 5>(stage, from, to);
  case 7:
    return runStage<T, 7>(stage, from, to);
  case 8:
    return runStage<T, 8>(stage, from, to);
  default:
    return runOddStage(stage, from, to);
  }
}

/// Two places for the points of a transform. Each stage reads one and writes
/// the other.
template <typename T> struct Places {
  Point<T> *now, *other;

  void flip() {
    Point<T> *before = now;
    now = other;
    other = before;
  }
};

template <typename T> void runStages(const Plan<T> &plan, Places<T> &points) {
  for (const Stage<T> &stage : plan.stages) {
    runAnyStage(stage, points.now, points.other);
    points.flip();
  }
}

/// The convolution of the points times the chirp with the conjugate chirp. An
/// inverse transform is a forward one of swapped parts.
template <typename T>
void runConvolution(const Plan<T> &plan, Places<T> &points) {
  const Plan<T> &longer = *plan.convolution;
  for (int64_t k = 0; k < plan.length; ++k)
    points.now[k] = points.now[k] * (plan.chirp.data() + 2 * k);
  for (int64_t k = plan.length; k < longer.length; ++k)
    points.now[k] = Point<T>{};
  runStages(longer, points);
  for (int64_t k = 0; k < longer.length; ++k)
    points.now[k] = (points.now[k] * (plan.spectrum.data() + 2 * k)).swapped();
  runStages(longer, points);
  for (int64_t k = 0; k < plan.length; ++k)
    points.now[k] = points.now[k].swapped() * (plan.chirp.data() + 2 * k);
}

/// The forward transform of the points, which end in `points.now`.
template <typename T> void transform(const Plan<T> &plan, Places<T> &points) {
  if (plan.convolution)
    runConvolution(plan, points);
  else
    runStages(plan, points);
}

} // namespace
} // namespace anabranch::fft

#endif // ANABRANCH_FFT_LANESTAGES_H
