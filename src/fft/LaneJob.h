//===- LaneJob.h - the rows of a job, a group at a time ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The one file that a file for a width of vectors includes. It first sets
// ANABRANCH_FFT_VECTOR_BYTES.

#ifndef ANABRANCH_FFT_LANEJOB_H
#define ANABRANCH_FFT_LANEJOB_H

#include "fft/LaneRows.h"
#include "fft/LaneStages.h"
#include "fft/Lanes.h"

namespace anabranch::fft {
namespace {

/// The rows of a job from `first` on, one in each lane.
template <typename T> class Group {
public:
  Group(const Job<T> &job, int64_t first, Places<T> points)
      : job(job), first(first), length(job.length), half(job.length / 2),
        points(points) {}

  void run() {
    bool isEven = length % 2 == 0;
    if (job.kind == Kind::Complex)
      runComplex();
    else if (job.kind == Kind::RealToHalf)
      isEven ? evenToHalf() : oddToHalf();
    else
      isEven ? halfToEven() : halfToOdd();
  }

private:
  const Job<T> &job;
  int64_t first, length, half;
  Places<T> points;

  template <typename E> Plane<E> plane(E *base, int64_t pitch) const {
    return {base + first * (job.across ? 1 : pitch), pitch, job.across};
  }
  template <typename Take> void read(int part, int64_t count, Take take) const {
    readPlane<T>(plane(job.from[part], job.fromPitch), count, take);
  }
  template <typename Give>
  void write(int part, int64_t count, Give give) const {
    T scale = job.scale;
    writePlane<T>(plane(job.to[part], job.toPitch), count,
                  [&](int64_t k) { return give(k) * scale; });
  }
  /// Reads both parts of the first `count` points.
  void readPoints(int64_t count) {
    read(0, count, [&](int64_t k, Vector<T> x) { points.now[k].re = x; });
    read(1, count, [&](int64_t k, Vector<T> x) { points.now[k].im = x; });
  }
  void writePoints(int64_t count) const {
    write(0, count, [&](int64_t k) { return points.now[k].re; });
    write(1, count, [&](int64_t k) { return points.now[k].im; });
  }

  /// An inverse transform is a forward one of swapped parts.
  void runComplex() {
    int re = job.inverse ? 1 : 0, im = 1 - re;
    read(re, length, [&](int64_t k, Vector<T> x) { points.now[k].re = x; });
    read(im, length, [&](int64_t k, Vector<T> x) { points.now[k].im = x; });
    transform(*job.plan, points);
    write(re, length, [&](int64_t k) { return points.now[k].re; });
    write(im, length, [&](int64_t k) { return points.now[k].im; });
  }

  void oddToHalf() {
    read(0, length, [&](int64_t k, Vector<T> x) {
      points.now[k] = Point<T>{x, Vector<T>{}};
    });
    transform(*job.plan, points);
    writePoints(half + 1);
  }

  /// Even and odd elements are the parts of half as many complex numbers. Their
  /// transforms are the even and the odd parts of that of the numbers.
  void evenToHalf() {
    read(0, length, [&](int64_t k, Vector<T> x) {
      (k % 2 ? points.now[k / 2].im : points.now[k / 2].re) = x;
    });
    transform(*job.plan, points);
    points.now[half] = points.now[0];
    for (int64_t k = 0; k <= half; ++k) {
      Point<T> here = points.now[k], there = points.now[half - k].conjugate();
      Point<T> odd = ((here - there) * (job.halving + 2 * k)).timesMinusI();
      points.other[k] = (here + there + odd) * T(0.5);
    }
    points.flip();
    writePoints(half + 1);
  }

  /// The other way round, for the inverse transform: parts are swapped. The
  /// imaginary parts of the first and the last element do not count.
  void halfToEven() {
    readPoints(half + 1);
    points.now[0].im = points.now[half].im = Vector<T>{};
    for (int64_t k = 0; k < half; ++k) {
      Point<T> here = points.now[k], there = points.now[half - k].conjugate();
      T turn[2] = {job.halving[2 * k], -job.halving[2 * k + 1]};
      Point<T> odd = ((here - there) * turn).timesI();
      points.other[k] = (here + there + odd).swapped();
    }
    points.flip();
    transform(*job.plan, points);
    write(0, length, [&](int64_t k) {
      return k % 2 ? points.now[k / 2].re : points.now[k / 2].im;
    });
  }

  void halfToOdd() {
    readPoints(half + 1);
    points.now[0].im = Vector<T>{};
    for (int64_t k = 1; k <= half; ++k)
      points.now[length - k] = points.now[k].conjugate().swapped();
    for (int64_t k = 0; k <= half; ++k)
      points.now[k] = points.now[k].swapped();
    transform(*job.plan, points);
    write(0, length, [&](int64_t k) { return points.now[k].im; });
  }
};

template <typename T> void runJob(const Job<T> &job) {
  auto *work = reinterpret_cast<Point<T> *>(job.work);
  int64_t places = job.length + 1;
  if (job.plan->convolution && job.plan->convolution->length > places)
    places = job.plan->convolution->length;
  for (int64_t row = 0; row < job.rows; row += lanes<T>)
    Group<T>(job, row, {work, work + places}).run();
}

constexpr LaneCode code{runJob<float>, runJob<double>};

} // namespace
} // namespace anabranch::fft

#endif // ANABRANCH_FFT_LANEJOB_H
