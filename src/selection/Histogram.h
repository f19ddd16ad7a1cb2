//===- Histogram.h - counts numbers between edges ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
//   edges    0   2   4        bins [0, 2) and [2, 4]
//   numbers  4 1 -3 2 NaN     counts 1 and 2
//
// Numbers outside of the edges are in no bin. The operations have PyTorch's
// order, and so its roundings.

#ifndef ANABRANCH_SELECTION_HISTOGRAM_H
#define ANABRANCH_SELECTION_HISTOGRAM_H

#include <cstdint>
#include <vector>

namespace anabranch::selection {

/// The least and the largest of some numbers. One NaN makes both NaN.
template <typename T> struct Bounds {
  T low, high;
};
/// Zero and `ifEmpty` of no numbers.
template <typename T>
Bounds<T> boundsOf(const T *numbers, int64_t size, T ifEmpty);

/// The edges of `bins` bins of one width.
template <typename T> std::vector<T> evenEdges(Bounds<T> bounds, int64_t bins);

/// Bins of one width between two bounds, the lower being less than the upper.
template <typename T> class EvenBins {
public:
  EvenBins(Bounds<T> bounds, int64_t bins) : bounds(bounds), bins(bins) {}
  int64_t count() const { return bins; }
  bool holds(T number) const {
    return number >= bounds.low && number <= bounds.high;
  }
  int64_t binOf(T number) const {
    T place = (number - bounds.low) * static_cast<T>(bins) /
              (bounds.high - bounds.low);
    // A range that overflows makes NaN here.
    return !(place > 0)                   ? 0
           : place < static_cast<T>(bins) ? static_cast<int64_t>(place)
                                          : bins - 1;
  }

private:
  Bounds<T> bounds;
  int64_t bins;
};

/// Bins between any edges, of which there are two or more.
template <typename T> class EdgedBins {
public:
  EdgedBins(const T *edges, int64_t edgeCount)
      : edges(edges), edgeCount(edgeCount) {}
  int64_t count() const { return edgeCount - 1; }
  bool holds(T number) const {
    return number >= edges[0] && number <= edges[edgeCount - 1];
  }
  /// Searches among all edges.
  int64_t binOf(T number) const { return search(number, 0, edgeCount); }
  /// Searches among the edges from `begin` on, before `end`.
  int64_t search(T number, int64_t begin, int64_t end) const;

private:
  const T *edges;
  int64_t edgeCount;
};

/// Bins between the edges that `evenEdges` makes, as rounded: a number near an
/// edge lies on the side that the edge says, not on the one of the division.
template <typename T> class RoundedBins {
public:
  RoundedBins(Bounds<T> bounds, const std::vector<T> &edges);
  int64_t count() const { return edged.count(); }
  bool holds(T number) const { return even.holds(number); }
  int64_t binOf(T number) const;

private:
  EvenBins<T> even;
  EdgedBins<T> edged;
};

/// Adds to `sums`, at the bin of each number, the weight at its position; one
/// if `weights` is null.
template <typename T, typename Bins>
void addToHistogram(const Bins &bins, const T *numbers, const T *weights,
                    int64_t size, T *sums);

/// Divides each sum by the sum of all, and by the width of its bin.
template <typename T>
void divideByWidths(const T *edges, int64_t bins, T *sums);

} // namespace anabranch::selection

#endif // ANABRANCH_SELECTION_HISTOGRAM_H
