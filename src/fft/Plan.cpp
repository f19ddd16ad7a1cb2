//===- Plan.cpp - the tables of the transforms of one length --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "fft/Plan.h"

#include <cmath>
#include <complex>
#include <utility>

namespace anabranch::fft {

namespace {

using Wide = long double;
constexpr Wide pi = 3.141592653589793238462643383279502884L;

/// The cosine and the sine of `k` / `length` of a turn, for 0 <= k < length.
/// The angle that they are computed from is at most an eighth of a turn.
std::pair<Wide, Wide> onCircle(int64_t k, int64_t length) {
  if (2 * k > length) {
    auto [cosine, sine] = onCircle(length - k, length);
    return {cosine, -sine};
  }
  if (4 * k > length) { // length / 2 - k may be no integer
    auto [cosine, sine] = onCircle(length - 2 * k, 2 * length);
    return {-cosine, sine};
  }
  if (8 * k > length) {
    auto [cosine, sine] = onCircle(length - 4 * k, 4 * length);
    return {sine, cosine};
  }
  Wide angle = 2 * pi * Wide(k) / Wide(length);
  return {std::cos(angle), std::sin(angle)};
}

/// Adds exp(-2 pi i k / length).
template <typename T>
void addTwiddle(std::vector<T> &table, int64_t k, int64_t length) {
  auto [cosine, sine] = onCircle(k % length, length);
  table.push_back(T(cosine));
  table.push_back(T(-sine));
}

/// The radices of the stages, in order; empty if a prime factor is too large.
std::vector<int64_t> radicesOf(int64_t length) {
  std::vector<int64_t> radices;
  auto takeAll = [&](int64_t radix) {
    for (; length % radix == 0; length /= radix)
      radices.push_back(radix);
  };
  takeAll(8);
  takeAll(4);
  takeAll(2);
  for (int64_t radix = 3; radix <= largestRadix; radix += 2)
    takeAll(radix);
  if (length > 1)
    radices.clear();
  return radices;
}

bool isSmooth(int64_t length) {
  for (int64_t prime : {2, 3, 5})
    while (length % prime == 0)
      length /= prime;
  return length == 1;
}

template <typename T>
Stage<T> makeStage(int64_t radix, int64_t remaining, int64_t stride) {
  Stage<T> stage{radix, remaining / radix, stride, {}, {}};
  for (int64_t k = 0; k < stage.count; ++k)
    for (int64_t j = 1; j < radix; ++j)
      addTwiddle(stage.twiddles, j * k, remaining);
  if (radix % 2 == 1)
    for (int64_t j = 0; j < radix; ++j) {
      auto [cosine, sine] = onCircle(j, radix);
      stage.roots.push_back(T(cosine));
      stage.roots.push_back(T(sine));
    }
  return stage;
}

using WidePoint = std::complex<Wide>;

/// The transform of every `step`-th point from `first` on, of a smooth number
/// of points. `turns` has exp(-2 pi i k / n) for all n points.
std::vector<WidePoint> transformed(const std::vector<WidePoint> &points,
                                   const std::vector<WidePoint> &turns,
                                   size_t first, size_t step) {
  size_t count = points.size() / step;
  if (count == 1)
    return {points[first]};
  size_t radix = count % 2 == 0 ? 2 : count % 3 == 0 ? 3 : 5;
  std::vector<WidePoint> result(count);
  for (size_t j = 0; j < radix; ++j) {
    auto part = transformed(points, turns, first + j * step, step * radix);
    for (size_t k = 0; k < count; ++k) {
      WidePoint turn = turns[j * k % count * step], x = part[k % part.size()];
      result[k] += WidePoint(x.real() * turn.real() - x.imag() * turn.imag(),
                             x.real() * turn.imag() + x.imag() * turn.real());
    }
  }
  return result;
}

/// The transform of the conjugate chirp, which lies around point zero of the
/// convolution.
std::vector<WidePoint> chirpSpectrum(int64_t length, int64_t longer) {
  std::vector<WidePoint> points(longer), turns;
  for (int64_t k = 0; k < length; ++k) {
    auto [cosine, sine] = onCircle(k * k % (2 * length), 2 * length);
    for (int64_t at : {k, (longer - k) % longer})
      points[at] = WidePoint(cosine, sine) / Wide(longer);
  }
  for (int64_t k = 0; k < longer; ++k) {
    auto [cosine, sine] = onCircle(k, longer);
    turns.emplace_back(cosine, -sine);
  }
  return transformed(points, turns, 0, 1);
}

} // namespace

int64_t convolutionLength(int64_t length) {
  if (length < 2 || !radicesOf(length).empty())
    return 0;
  int64_t longer = 2 * length - 1;
  while (!isSmooth(longer))
    ++longer;
  return longer;
}

template <typename T> Plan<T>::Plan(int64_t length) : length(length) {
  if (int64_t longer = convolutionLength(length)) {
    convolution = std::make_shared<const Plan>(longer);
    for (int64_t k = 0; k < length; ++k)
      addTwiddle(chirp, k * k % (2 * length), 2 * length);
    for (WidePoint point : chirpSpectrum(length, longer)) {
      spectrum.push_back(T(point.real()));
      spectrum.push_back(T(point.imag()));
    }
    return;
  }
  int64_t remaining = length, stride = 1;
  for (int64_t radix : radicesOf(length)) {
    stages.push_back(makeStage<T>(radix, remaining, stride));
    remaining /= radix;
    stride *= radix;
  }
}

template <typename T> std::vector<T> halvingTwiddles(int64_t length) {
  std::vector<T> twiddles;
  for (int64_t k = 0; k <= length / 2; ++k)
    addTwiddle(twiddles, k, length);
  return twiddles;
}

template struct Plan<float>;
template struct Plan<double>;
template std::vector<float> halvingTwiddles(int64_t);
template std::vector<double> halvingTwiddles(int64_t);

} // namespace anabranch::fft
