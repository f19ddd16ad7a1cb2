//===- HistogramOperators.cpp - count numbers between edges ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/operators/HistogramOperators.h"

#include "runtime/operators/OwnCall.h"
#include "selection/Histogram.h"

#include <algorithm>
#include <cmath>

namespace anabranch::runtime {

namespace {

using selection::Bounds;

/// A call for floats of type T.
template <typename T> struct Histogram {
  OwnCall &call;
  TensorView self;
  DType dtype = self.dtype;

  const T *numbers() const { return static_cast<const T *>(self.data); }
  int64_t size() const { return elementsOf(self); }

  /// The number of bins; zero after an error.
  int64_t bins() {
    int64_t bins = call.integer("bins");
    if (bins < 1)
      call.fail("bins must be > 0, but got " + std::to_string(bins));
    return std::max<int64_t>(bins, 0);
  }
  /// Fails the call for bounds that are no range, and widens an empty one by
  /// `margin` on each side.
  Bounds<T> checked(Bounds<T> bounds, T margin) {
    if (!std::isfinite(bounds.low) || !std::isfinite(bounds.high))
      call.fail("the range [" + std::to_string(bounds.low) + ", " +
                std::to_string(bounds.high) + "] is not finite");
    else if (bounds.low > bounds.high)
      call.fail("max must be larger than min");
    if (bounds.low == bounds.high)
      return {bounds.low - margin, bounds.high + margin};
    return bounds;
  }
  /// The memory of the sums, zeros.
  T *sums(int64_t bins) {
    auto *made = static_cast<T *>(call.make(0, dtype, {bins}));
    if (made)
      std::fill_n(made, bins, T(0));
    return made;
  }
  /// The weights; null without any.
  const T *weights() {
    if (!call.has("weight"))
      return nullptr;
    TensorView weight = call.tensor("weight");
    if (call.ok() &&
        (weight.dtype != dtype || shapeOf(weight) != shapeOf(self)))
      call.fail("the weights need the dtype and the shape of the input");
    return static_cast<const T *>(weight.data);
  }

  void runBetweenBounds();
  void runOfCount();
  void runOfEdges();

private:
  Bounds<T> givenOrFound();
  /// Counts, and writes the edges as the second result.
  template <typename Bins> void fill(const Bins &bins, const T *edges, T *made);
};

template <typename T> void Histogram<T>::runBetweenBounds() {
  int64_t count = bins();
  Bounds<T> bounds{static_cast<T>(call.real("min")),
                   static_cast<T>(call.real("max"))};
  if (bounds.low == bounds.high && size())
    bounds = selection::boundsOf(numbers(), size(), T(0));
  bounds = checked(bounds, T(1));
  if (T *made = sums(count))
    addToHistogram(selection::EvenBins<T>(bounds, count), numbers(),
                   static_cast<const T *>(nullptr), size(), made);
}

template <typename T> Bounds<T> Histogram<T>::givenOrFound() {
  if (!call.has("range"))
    return selection::boundsOf(numbers(), size(), T(1));
  size_t count = 0;
  const HostArgument *items = call.items("range", count);
  if (count == 2)
    return {static_cast<T>(realOf(items[0])), static_cast<T>(realOf(items[1]))};
  call.fail("the range needs two numbers");
  return {};
}

template <typename T> void Histogram<T>::runOfCount() {
  int64_t count = bins();
  Bounds<T> bounds = checked(givenOrFound(), T(0.5));
  // The sums come first: a number of bins without memory ends here.
  T *made = sums(count);
  if (!made)
    return;
  std::vector<T> edges = selection::evenEdges(bounds, count);
  fill(selection::RoundedBins<T>(bounds, edges), edges.data(), made);
}

template <typename T> void Histogram<T>::runOfEdges() {
  TensorView edges = call.tensor("bins");
  if (call.ok() && (edges.dtype != dtype || edges.rank != 1))
    call.fail("the edges need the dtype of the input, and one dimension");
  else if (call.ok() && edges.shape[0] < 2)
    call.fail("bins must be > 0, but there is less than two edges");
  if (!call.ok())
    return;
  const T *given = static_cast<const T *>(edges.data);
  if (T *made = sums(edges.shape[0] - 1))
    fill(selection::EdgedBins<T>(given, edges.shape[0]), given, made);
}

template <typename T>
template <typename Bins>
void Histogram<T>::fill(const Bins &bins, const T *edges, T *made) {
  const T *weights = this->weights();
  if (!call.ok())
    return;
  addToHistogram(bins, numbers(), weights, size(), made);
  if (call.boolean("density"))
    selection::divideByWidths(edges, bins.count(), made);
  if (!call.wants(1))
    return;
  if (void *copy = call.make(1, dtype, {bins.count() + 1}))
    std::copy_n(edges, bins.count() + 1, static_cast<T *>(copy));
}

/// Calls `run` with a Histogram of the dtype of `self`.
template <typename Run> void withDType(OwnCall &call, Run run) {
  TensorView self = call.tensor("self");
  if (!call.ok())
    return;
  if (self.dtype == DType::F32)
    return run(Histogram<float>{call, self});
  if (self.dtype == DType::F64)
    return run(Histogram<double>{call, self});
  call.fail("counts numbers of f32 and f64");
}

} // namespace

void runHistc(OwnCall &call) {
  withDType(call, [](auto histogram) { histogram.runBetweenBounds(); });
}

void runHistogram(OwnCall &call) {
  withDType(call, [&](auto histogram) {
    if (call.isTensor("bins"))
      histogram.runOfEdges();
    else
      histogram.runOfCount();
  });
}

} // namespace anabranch::runtime
