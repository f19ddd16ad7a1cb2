//===- Histogram.cpp - counts numbers between edges -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "selection/Histogram.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace anabranch::selection {

template <typename T>
Bounds<T> boundsOf(const T *numbers, int64_t size, T ifEmpty) {
  if (size == 0)
    return {0, ifEmpty};
  Bounds<T> found{numbers[0], numbers[0]};
  bool nan = false;
  for (int64_t i = 0; i < size; ++i) {
    found.low = std::min(found.low, numbers[i]);
    found.high = std::max(found.high, numbers[i]);
    nan |= numbers[i] != numbers[i];
  }
  return nan ? Bounds<T>{T(NAN), T(NAN)} : found;
}

template <typename T> std::vector<T> evenEdges(Bounds<T> bounds, int64_t bins) {
  std::vector<T> edges(bins + 1);
  T step = (bounds.high - bounds.low) / static_cast<T>(bins);
  // As `linspace` does: the upper half counts down from its end, and no product
  // is rounded before it is added.
  for (int64_t i = 0; i <= bins; ++i)
    edges[i] = i < (bins + 1) / 2
                   ? std::fma(step, static_cast<T>(i), bounds.low)
                   : std::fma(-step, static_cast<T>(bins - i), bounds.high);
  return edges;
}

template <typename T>
int64_t EdgedBins<T>::search(T number, int64_t begin, int64_t end) const {
  int64_t bin =
      std::upper_bound(edges + begin, edges + end, number) - edges - 1;
  // The last bin holds its upper edge. Edges without an order have any place.
  return std::clamp<int64_t>(bin, 0, edgeCount - 2);
}

template <typename T>
RoundedBins<T>::RoundedBins(Bounds<T> bounds, const std::vector<T> &edges)
    : even(bounds, static_cast<int64_t>(edges.size()) - 1),
      edged(edges.data(), static_cast<int64_t>(edges.size())) {}

template <typename T> int64_t RoundedBins<T>::binOf(T number) const {
  int64_t near = even.binOf(number);
  return edged.search(number, std::max<int64_t>(near - 1, 0),
                      std::min(near + 2, edged.count() + 1));
}

template <typename T, typename Bins>
void addToHistogram(const Bins &bins, const T *numbers, const T *weights,
                    int64_t size, T *sums) {
  if (weights) {
    for (int64_t i = 0; i < size; ++i)
      if (bins.holds(numbers[i]))
        sums[bins.binOf(numbers[i])] += weights[i];
    return;
  }
  // Floats stop to count where one is less than their precision.
  std::vector<int64_t> counts(bins.count());
  for (int64_t i = 0; i < size; ++i)
    if (bins.holds(numbers[i]))
      ++counts[bins.binOf(numbers[i])];
  for (int64_t bin = 0; bin < bins.count(); ++bin)
    sums[bin] += static_cast<T>(counts[bin]);
}

template <typename T>
void divideByWidths(const T *edges, int64_t bins, T *sums) {
  T total = std::accumulate(sums, sums + bins, T(0));
  for (int64_t bin = 0; bin < bins; ++bin)
    sums[bin] = sums[bin] / total / (edges[bin + 1] - edges[bin]);
}

// A type in template arguments takes no parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define ANABRANCH_HISTOGRAM_OF(T)                                              \
  template Bounds<T> boundsOf(const T *, int64_t, T);                          \
  template std::vector<T> evenEdges(Bounds<T>, int64_t);                       \
  template class EdgedBins<T>;                                                 \
  template class RoundedBins<T>;                                               \
  template void addToHistogram(const EvenBins<T> &, const T *, const T *,      \
                               int64_t, T *);                                  \
  template void addToHistogram(const EdgedBins<T> &, const T *, const T *,     \
                               int64_t, T *);                                  \
  template void addToHistogram(const RoundedBins<T> &, const T *, const T *,   \
                               int64_t, T *);                                  \
  template void divideByWidths(const T *, int64_t, T *);
// NOLINTEND(bugprone-macro-parentheses)
ANABRANCH_HISTOGRAM_OF(float)
ANABRANCH_HISTOGRAM_OF(double)
#undef ANABRANCH_HISTOGRAM_OF

} // namespace anabranch::selection
