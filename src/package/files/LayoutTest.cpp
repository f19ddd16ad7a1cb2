//===- LayoutTest.cpp - layouts against the places of all elements --------===//
// SPDX-License-Identifier: Apache-2.0

#include "anabranch/Layout.h"

#include "gtest/gtest.h"

#include <algorithm>

using namespace anabranch;

namespace {

using Numbers = std::vector<int64_t>;

TensorView viewOf(const Numbers &shape, const Numbers &strides) {
  return {nullptr, shape.data(), strides.data(), int32_t(shape.size()),
          DType::F32};
}

/// The places of all elements, in row-major order.
Numbers placesOf(const Numbers &shape, const Numbers &strides) {
  Numbers places{0};
  for (size_t d = 0; d < shape.size(); ++d) {
    Numbers next;
    for (int64_t place : places)
      for (int64_t i = 0; i < shape[d]; ++i)
        next.push_back(place + i * strides[d]);
    places = next;
  }
  return places;
}

/// All shapes of up to three dimensions of 0, 1, 2 or 3, with all strides of up
/// to 7.
template <typename Body> void forLayouts(const Body &body) {
  for (int64_t rank = 0; rank <= 3; ++rank)
    for (int64_t s = 0; s < 1 << (2 * rank); ++s)
      for (int64_t t = 0; t < 1 << (3 * rank); ++t) {
        Numbers shape, strides;
        for (int64_t d = 0; d < rank; ++d) {
          shape.push_back(s >> (2 * d) & 3);
          strides.push_back(t >> (3 * d) & 7);
        }
        body(shape, strides);
      }
}

TEST(Layout, IsThatOfThePlacesOfElements) {
  forLayouts([](const Numbers &shape, const Numbers &strides) {
    Numbers places = placesOf(shape, strides), dense(places.size());
    for (size_t i = 0; i < dense.size(); ++i)
      dense[i] = int64_t(i);
    TensorView view = viewOf(shape, strides);
    EXPECT_EQ(isContiguous(view), places == dense);
    Numbers found = contiguousStrides(shape.data(), int32_t(shape.size()));
    EXPECT_EQ(placesOf(shape, found), dense);
    EXPECT_EQ(hasStrides(view, found.data()), places == dense);
    EXPECT_TRUE(hasStrides(view, strides.data()));
    EXPECT_EQ(spanOf(view),
              places.empty()
                  ? 0
                  : *std::max_element(places.begin(), places.end()) + 1);
  });
}

TEST(Layout, NoStridesAreThoseOfAContiguousTensor) {
  Numbers shape{2, 3, 4}, strides{12, 4, 1}, other{1, 2, 6};
  TensorView view{nullptr, shape.data(), nullptr, 3, DType::F32};
  EXPECT_TRUE(isContiguous(view));
  EXPECT_TRUE(hasStrides(view, strides.data()));
  EXPECT_FALSE(hasStrides(view, other.data()));
  EXPECT_EQ(spanOf(view), 24);
}

TEST(Layout, NegativeStridesReachNothing) {
  Numbers shape{2, 2}, strides{-2, 1};
  EXPECT_EQ(spanOf(viewOf(shape, strides)), 0);
}

} // namespace
