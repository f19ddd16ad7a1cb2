//===- SelectionTest.cpp - selections against plain loops -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "selection/Counts.h"
#include "selection/Histogram.h"
#include "selection/Keys.h"
#include "selection/Mask.h"
#include "selection/Rows.h"
#include "selection/Sort.h"
#include "selection/SpreadSort.h"
#include "selection/Unique.h"
#include "selection/UniqueRows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

namespace anabranch::selection {

namespace {

std::vector<int64_t> truesOf(const Mask &mask) {
  std::vector<int64_t> found;
  mask.forEach([&](int64_t position) { found.push_back(position); });
  return found;
}

TEST(Mask, FindsEachElementOfAnySize) {
  std::mt19937 random(1);
  for (int64_t size : {0, 1, 7, 63, 64, 65, 130, 1000}) {
    std::vector<int16_t> numbers(size);
    std::vector<int64_t> expected;
    for (int64_t i = 0; i < size; ++i) {
      numbers[i] = static_cast<int16_t>(random() % 3 ? 0 : random());
      if (numbers[i])
        expected.push_back(i);
    }
    Mask mask(numbers.data(), DType::I16, size);
    EXPECT_EQ(truesOf(mask), expected) << size;
    EXPECT_EQ(mask.trues(), static_cast<int64_t>(expected.size()));
  }
}

TEST(Mask, ZeroHasASignAndNanIsTrue) {
  float f[] = {-0.0f, 1e-45f, NAN, 0.0f};
  EXPECT_EQ(truesOf(Mask(f, DType::F32, 4)), (std::vector<int64_t>{1, 2}));
  double d[] = {-0.0, -0.0, 0.0, -1.0, 5e-324, 0.0};
  EXPECT_EQ(truesOf(Mask(d, DType::C128, 3)), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(truesOf(Mask(f, DType::C64, 2)), (std::vector<int64_t>{0, 1}));
  uint16_t halves[] = {0x8000, 0x0001};
  EXPECT_EQ(truesOf(Mask(halves, DType::F16, 2)), (std::vector<int64_t>{1}));
  int8_t bytes[] = {-128, 0};
  EXPECT_EQ(truesOf(Mask(bytes, DType::I8, 2)), (std::vector<int64_t>{0}));
}

TEST(Mask, WritesTheIndicesOfARow) {
  std::vector<uint8_t> flags(2 * 3 * 5);
  std::vector<int64_t> expected;
  for (int64_t i : {0, 4, 5, 14, 15, 29}) {
    flags[i] = 1;
    expected.insert(expected.end(), {i / 15, i / 5 % 3, i % 5});
  }
  const int64_t shape[] = {2, 3, 5};
  Mask mask(flags.data(), DType::Bool, 30);
  std::vector<int64_t> made(expected.size());
  writePositions(mask, shape, 3, made.data());
  EXPECT_EQ(made, expected);
}

TEST(Rows, SelectsAndAssignsRowsOfEachSize) {
  uint8_t flags[] = {0, 1, 1, 0, 1};
  Mask mask(flags, DType::Bool, 5);
  for (size_t bytes : {0, 1, 2, 3, 4, 8, 16, 100}) {
    std::vector<char> rows(5 * bytes), chosen(3 * bytes), made(5 * bytes);
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i] = static_cast<char>(i);
    selectRows(mask, rows.data(), bytes, chosen.data());
    assignRows(mask, chosen.data(), bytes, bytes, made.data());
    for (size_t i = 0; i < rows.size(); ++i)
      EXPECT_EQ(made[i], flags[i / bytes] ? rows[i] : 0) << bytes;
    assignRows(mask, rows.data(), 0, bytes, made.data());
    for (size_t i = 0; i < rows.size(); ++i)
      EXPECT_EQ(made[i], flags[i / bytes] ? rows[i % bytes] : 0) << bytes;
  }
}

TEST(Counts, RepeatsPositions) {
  const int64_t counts[] = {3, 0, 9, 1, 0, 0, 2};
  int64_t total = totalOf(counts, 7);
  ASSERT_EQ(total, 15);
  std::vector<int64_t> made(total + 1, 77), expected;
  for (int64_t i = 0; i < 7; ++i)
    expected.insert(expected.end(), counts[i], i);
  repeatPositions(counts, 7, total, made.data());
  expected.push_back(77); // nothing is written beyond the end
  EXPECT_EQ(made, expected);
  const int32_t negative[] = {5, -1};
  EXPECT_EQ(totalOf(negative, 2), -1);
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  const int64_t large[] = {most - 3, 0, 3, 1, most, most};
  EXPECT_EQ(totalOf(large, 3), most);
  for (int64_t size : {4, 5, 6})
    EXPECT_EQ(totalOf(large, size), -1) << size;
}

TEST(Counts, AddsToBins) {
  std::mt19937 random(2);
  for (int64_t size : {0, 1, 5, 1000})
    for (int64_t bins : {1, 7, 6000}) {
      std::vector<int32_t> numbers(size);
      std::vector<double> weights(size), sums(bins), expected(bins);
      std::vector<int64_t> made(bins, 0), counts(bins);
      for (int64_t i = 0; i < size; ++i) {
        numbers[i] = static_cast<int32_t>(random() % bins);
        weights[i] = static_cast<double>(random() % 100) / 7;
        ++counts[numbers[i]];
        expected[numbers[i]] += weights[i];
      }
      addToBins<int32_t, int64_t>(numbers.data(), nullptr, size, made.data(),
                                  bins);
      addToBins(numbers.data(), weights.data(), size, sums.data(), bins);
      EXPECT_EQ(made, counts);
      EXPECT_EQ(sums, expected);
    }
}

TEST(SpreadSort, SortsKeysOfAnyDistribution) {
  std::mt19937_64 random(3);
  auto keyFor = [&](int kind, int64_t i) -> uint64_t {
    switch (kind) {
    case 0:
      return random();
    case 1:
      return random() % 100;
    case 2:
      return uint64_t(1) << (random() % 64);
    case 3:
      return i; // sorted
    case 4:
      return random() % 2 ? nanKey : 0;
    default:
      return random() % 4 ? 5 : random() % 1000000;
    }
  };
  for (int kind = 0; kind < 6; ++kind)
    for (int64_t size : {0, 1, 2, 48, 49, 1000, 40000}) {
      std::vector<uint64_t> keys(size), spare(size);
      for (int64_t i = 0; i < size; ++i)
        keys[i] = keyFor(kind, i);
      std::vector<uint64_t> expected = keys;
      std::sort(expected.begin(), expected.end());
      spreadSort(keys.data(), spare.data(), size);
      EXPECT_EQ(keys, expected) << kind << " " << size;
    }
}

TEST(Keys, KeepTheOrderAndTheNumber) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const float numbers[] = {-inf, -2.5f, -1e-45f, 0, 1e-45f, 1, inf};
  uint64_t keys[7];
  writeKeys(numbers, DType::F32, 7, keys, 1);
  EXPECT_TRUE(std::is_sorted(keys, keys + 7));
  float back[7];
  writeNumbers(keys, DType::F32, 7, back);
  EXPECT_TRUE(std::equal(back, back + 7, numbers));
  const float others[] = {-0.0f, -NAN};
  writeKeys(others, DType::F32, 2, keys, 1);
  uint64_t zero;
  writeKeys(&numbers[3], DType::F32, 1, &zero, 1);
  EXPECT_EQ(keys[0], zero);
  EXPECT_EQ(keys[1], nanKey);
  const int8_t small[] = {-128, -1, 0, 127};
  writeKeys(small, DType::I8, 4, keys, 1);
  EXPECT_TRUE(std::is_sorted(keys, keys + 4));
  int8_t same[4];
  writeNumbers(keys, DType::I8, 4, same);
  EXPECT_TRUE(std::equal(same, same + 4, small));
}

TEST(Unique, FindsNumbersCountsAndInverse) {
  const float numbers[] = {2, NAN, -1, 2, 0.0f, -0.0f, NAN, 2};
  int64_t inverse[8];
  Unique unique(numbers, DType::F32, 8, inverse);
  ASSERT_EQ(unique.size(), 5);
  float made[5];
  unique.writeNumbers(made);
  EXPECT_TRUE(made[0] == -1 && made[1] == 0 && made[2] == 2);
  EXPECT_TRUE(std::isnan(made[3]) && std::isnan(made[4]));
  int64_t counts[5];
  unique.writeCounts(counts);
  EXPECT_EQ(std::vector<int64_t>(counts, counts + 5),
            (std::vector<int64_t>{1, 2, 3, 1, 1}));
  EXPECT_EQ(std::vector<int64_t>(inverse, inverse + 8),
            (std::vector<int64_t>{2, 3, 0, 2, 1, 1, 4, 2}));
}

uint32_t bitsOf(float number) {
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof(bits));
  return bits;
}

/// The rows of a line in order, by a stable sort that compares.
std::vector<int64_t> orderOf(const std::vector<float> &line, Order order) {
  std::vector<int64_t> rows(line.size());
  std::iota(rows.begin(), rows.end(), 0);
  auto less = [](float a, float b) {
    return std::isnan(b) ? !std::isnan(a) : a < b;
  };
  std::stable_sort(rows.begin(), rows.end(), [&](int64_t a, int64_t b) {
    return order == Order::LeastFirst ? less(line[a], line[b])
                                      : less(line[b], line[a]);
  });
  return rows;
}

TEST(Sort, OrdersLinesOfEachSizeAndKeepsEqualOnes) {
  std::mt19937 random(3);
  const float special[] = {NAN, -0.0f, 0.0f, INFINITY, -INFINITY, 1, 1};
  for (int64_t rows : {1, 2, 7, 49, 300})
    for (int64_t inner : {1, 3})
      for (Order order : {Order::LeastFirst, Order::LargestFirst})
        for (int64_t kept : {int64_t(0), rows / 9, rows / 2, rows}) {
          std::vector<float> numbers(2 * rows * inner);
          for (float &number : numbers)
            number = random() % 3 ? special[random() % 7] : float(random());
          std::vector<float> sorted(2 * kept * inner);
          std::vector<int64_t> places(sorted.size());
          sortLines(numbers.data(), DType::F32, {2, rows, inner}, order,
                    Ties::InOrder, kept, sorted.data(), places.data());
          for (int64_t at = 0; at < 2 * inner; ++at) {
            int64_t from = at / inner * rows * inner + at % inner;
            int64_t to = at / inner * kept * inner + at % inner;
            std::vector<float> line(rows);
            for (int64_t row = 0; row < rows; ++row)
              line[row] = numbers[from + row * inner];
            std::vector<int64_t> expected = orderOf(line, order);
            for (int64_t i = 0; i < kept; ++i) {
              ASSERT_EQ(places[to + i * inner], expected[i]);
              ASSERT_EQ(bitsOf(sorted[to + i * inner]),
                        bitsOf(line[expected[i]]));
            }
          }
        }
}

/// A line, or its first part, is in the order of a stable sort.
template <typename T>
void expectSorted(DType dtype, std::vector<T> numbers, Order order) {
  int64_t count = numbers.size();
  std::vector<int64_t> expected(count);
  std::iota(expected.begin(), expected.end(), 0);
  std::stable_sort(expected.begin(), expected.end(), [&](int64_t a, int64_t b) {
    return order == Order::LeastFirst ? numbers[a] < numbers[b]
                                      : numbers[b] < numbers[a];
  });
  for (int64_t kept : {count, count / 2, count / 50}) {
    std::vector<int64_t> places(kept);
    std::vector<T> sorted(kept);
    sortLines(numbers.data(), dtype, {1, count, 1}, order, Ties::InOrder, kept,
              sorted.data(), places.data());
    expected.resize(kept);
    ASSERT_EQ(places, expected);
    for (int64_t i = 0; i < kept; ++i)
      ASSERT_EQ(sorted[i], numbers[expected[i]]);
  }
}

TEST(Sort, OrdersRangesOfEachWidth) {
  std::mt19937_64 random(5);
  // The places take fifteen bits: ranges of 49 bits are the widest that share
  // a word with them.
  for (int bits : {0, 1, 7, 16, 33, 48, 49, 50, 63, 64}) {
    std::vector<int64_t> numbers(20000);
    for (int64_t &number : numbers)
      number = bits ? int64_t(random() >> (64 - bits)) - (bits < 60) * 77 : 5;
    for (Order order : {Order::LeastFirst, Order::LargestFirst})
      expectSorted(DType::I64, numbers, order);
    expectSorted(DType::I32,
                 std::vector<int32_t>(numbers.begin(), numbers.end()),
                 Order::LargestFirst);
    expectSorted(DType::F64,
                 std::vector<double>(numbers.begin(), numbers.end()),
                 Order::LargestFirst);
  }
}

TEST(Sort, OrdersWideRangesWhoseElementsAreClose) {
  // One number far away takes the leading bits of ranks from all others.
  std::mt19937_64 random(6);
  for (int count : {63, 70, 5000, 20000})
    for (int bits : {0, 3, 20, 33, 40}) {
      std::vector<int64_t> numbers(count, INT64_MIN);
      for (int64_t &number : numbers)
        number = bits ? int64_t(random() >> (64 - bits)) : 5;
      numbers[count / 3] = INT64_MAX;
      numbers[count / 2] = INT64_MIN;
      for (Order order : {Order::LeastFirst, Order::LargestFirst})
        expectSorted(DType::I64, numbers, order);
    }
}

/// The places of the leading elements are those of PyTorch's calls for a line
/// of pairs of numbers and places.
template <typename T>
void expectTakenAsPyTorch(DType dtype, const std::vector<T> &numbers,
                          int64_t kept, Order order, Ties ties) {
  std::vector<int64_t> list(numbers.size());
  std::iota(list.begin(), list.end(), 0);
  auto before = [&](int64_t a, int64_t b) {
    return order == Order::LeastFirst ? numbers[a] < numbers[b]
                                      : numbers[b] < numbers[a];
  };
  auto begin = list.begin();
  if (kept * 64 <= int64_t(list.size())) {
    std::partial_sort(begin, begin + kept, list.end(), before);
  } else {
    std::nth_element(begin, begin + kept - 1, list.end(), before);
    if (ties == Ties::OfTopK)
      std::sort(begin, begin + kept - 1, before);
  }
  list.resize(kept);
  std::vector<int64_t> places(kept);
  sortLines(numbers.data(), dtype, {1, int64_t(numbers.size()), 1}, order, ties,
            kept, nullptr, places.data());
  ASSERT_EQ(places, list);
}

TEST(Sort, LeadingElementsAreThoseOfPyTorch) {
  std::mt19937_64 random(8);
  // Few bits: many elements are equal. All bits: ranks do not fit into a word.
  for (int bits : {1, 5, 12, 31, 64})
    for (int64_t count : {1, 5, 40, 128, 700, 3000}) {
      std::vector<int64_t> wide(count);
      for (int64_t &number : wide)
        number = int64_t(random() >> (64 - bits)) - (bits < 64) * 9;
      std::vector<float> floats(wide.begin(), wide.end());
      for (int64_t kept : {int64_t(1), int64_t(2), count / 64, count / 9,
                           count / 4, count / 2, count}) {
        if (kept < 1 || kept > count)
          continue;
        for (Order order : {Order::LeastFirst, Order::LargestFirst})
          for (Ties ties : {Ties::OfTopK, Ties::OfLooseTopK}) {
            expectTakenAsPyTorch(DType::I64, wide, kept, order, ties);
            expectTakenAsPyTorch(DType::F32, floats, kept, order, ties);
          }
      }
    }
}

TEST(Sort, KeepsNanOfEachLineLast) {
  for (double other : {double(NAN), -1e300, 0.0}) {
    const double numbers[] = {NAN, other, 1, NAN};
    int64_t places[4];
    sortLines(numbers, DType::F64, {1, 4, 1}, Order::LeastFirst, Ties::InOrder,
              4, nullptr, places);
    std::vector<int64_t> found(places, places + 4);
    EXPECT_EQ(found, std::isnan(other) ? (std::vector<int64_t>{2, 0, 1, 3})
                                       : (std::vector<int64_t>{1, 2, 0, 3}));
  }
}

TEST(Sort, OrdersIntegersBytesAndHalves) {
  const int64_t wide[] = {3, INT64_MIN, INT64_MAX, -1};
  int64_t sorted[4], places[4];
  sortLines(wide, DType::I64, {1, 4, 1}, Order::LeastFirst, Ties::InOrder, 4,
            sorted, places);
  EXPECT_EQ(std::vector<int64_t>(sorted, sorted + 4),
            (std::vector<int64_t>{INT64_MIN, -1, 3, INT64_MAX}));
  const uint8_t bytes[] = {7, 200, 7, 0};
  sortLines(bytes, DType::U8, {1, 4, 1}, Order::LargestFirst, Ties::InOrder, 4,
            nullptr, places);
  EXPECT_EQ(std::vector<int64_t>(places, places + 4),
            (std::vector<int64_t>{1, 0, 2, 3}));
  const uint16_t halves[] = {0x3c00, 0xbc00, 0x7e00}; // 1, -1, NaN
  sortLines(halves, DType::F16, {1, 3, 1}, Order::LargestFirst, Ties::InOrder,
            2, nullptr, places);
  EXPECT_EQ(std::vector<int64_t>(places, places + 2),
            (std::vector<int64_t>{2, 0}));
}

TEST(UniqueRows, SortsAllOrKeepsNeighbours) {
  // [2, 4, 1]: rows along the middle dimension
  const float numbers[] = {3, 3, -0.0f, 3, 1, 1, 5, 1};
  UniqueRows all(numbers, DType::F32, {2, 4, 1}, UniqueRows::Among::All);
  ASSERT_EQ(all.size(), 2);
  float rows[4];
  all.writeRows(rows);
  EXPECT_EQ(std::vector<float>(rows, rows + 4),
            (std::vector<float>{0, 3, 5, 1}));
  EXPECT_TRUE(std::signbit(rows[0])); // the bits of the first
  std::vector<int64_t> inverse(4), counts(2);
  all.writeInverse(inverse.data());
  all.writeCounts(counts.data());
  EXPECT_EQ(inverse, (std::vector<int64_t>{1, 1, 0, 1}));
  EXPECT_EQ(counts, (std::vector<int64_t>{1, 3}));
  UniqueRows near(numbers, DType::F32, {2, 4, 1},
                  UniqueRows::Among::Neighbours);
  EXPECT_EQ(near.size(), 3);
  near.writeInverse(inverse.data());
  EXPECT_EQ(inverse, (std::vector<int64_t>{0, 0, 1, 2}));
}

TEST(UniqueRows, RowsWithNanDiffer) {
  const float numbers[] = {NAN, 1, NAN, 1, 0, 1};
  UniqueRows all(numbers, DType::F32, {1, 3, 2}, UniqueRows::Among::All);
  EXPECT_EQ(all.size(), 3);
  UniqueRows none(nullptr, DType::F32, {1, 0, 2}, UniqueRows::Among::All);
  EXPECT_EQ(none.size(), 0);
}

TEST(Histogram, BinsHoldWhatTheirEdgesSay) {
  std::mt19937 random(4);
  for (int64_t bins : {1, 3, 10, 100}) {
    Bounds<float> bounds{-0.3f, 0.7f};
    std::vector<float> edges = evenEdges(bounds, bins);
    EXPECT_EQ(edges.front(), bounds.low);
    EXPECT_EQ(edges.back(), bounds.high);
    std::vector<float> numbers = edges;
    for (int i = 0; i < 1000; ++i)
      numbers.push_back(static_cast<float>(random()) / 2e9f - 1);
    numbers.push_back(NAN);
    std::vector<float> rounded(bins), searched(bins), expected(bins);
    auto size = static_cast<int64_t>(numbers.size());
    addToHistogram(RoundedBins<float>(bounds, edges), numbers.data(),
                   static_cast<float *>(nullptr), size, rounded.data());
    addToHistogram(EdgedBins<float>(edges.data(), bins + 1), numbers.data(),
                   static_cast<float *>(nullptr), size, searched.data());
    for (float number : numbers)
      for (int64_t bin = 0; bin < bins; ++bin)
        expected[bin] += number >= edges[bin] &&
                         (number < edges[bin + 1] ||
                          (bin == bins - 1 && number == edges[bin + 1]));
    EXPECT_EQ(rounded, expected) << bins;
    EXPECT_EQ(searched, expected) << bins;
  }
}

TEST(Histogram, AnyEdgesAndRangesHaveABin) {
  constexpr float most = std::numeric_limits<float>::max();
  EvenBins<float> wide({-most, most}, 4);
  for (float number : {-most, 0.0f, most}) {
    EXPECT_GE(wide.binOf(number), 0);
    EXPECT_LT(wide.binOf(number), 4);
  }
  const float edges[] = {0, 9, 3, 2, 5};
  EdgedBins<float> bins(edges, 5);
  for (float number : {0.0f, 1.0f, 4.0f, 5.0f}) {
    EXPECT_GE(bins.binOf(number), 0);
    EXPECT_LT(bins.binOf(number), 4);
  }
  float sums[] = {1, 3};
  const float widths[] = {0, 1, 3};
  divideByWidths(widths, 2, sums);
  EXPECT_EQ(sums[0], 0.25f);
  EXPECT_EQ(sums[1], 0.375f);
}

} // namespace

} // namespace anabranch::selection
