//===- TriangularTest.cpp - systems of triangular matrices ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "solve/Triangular.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace anabranch::solve {

/// The matrix times the result is the right side, also where strides go
/// backwards; what lies above the diagonal, and a diagonal of ones, is NaN.
template <typename T>
static void checkSystem(int64_t size, int64_t columns, bool isUnit,
                        bool backwards) {
  std::mt19937 random(3);
  std::uniform_real_distribution<T> number(-1, 1);
  int64_t pitch = columns + 3;
  std::vector<T> matrix(size * size), sides(size * pitch);
  int64_t last = backwards ? size - 1 : 0, step = backwards ? -1 : 1;
  auto at = [&](int64_t row, int64_t column) -> T & {
    return matrix[(last + step * row) * size + last + step * column];
  };
  for (int64_t row = 0; row < size; ++row)
    for (int64_t column = 0; column < size; ++column)
      at(row, column) = column < row               ? number(random) / size
                        : column == row && !isUnit ? 2 + number(random)
                                                   : T(NAN);
  for (T &side : sides)
    side = number(random);
  std::vector<T> given = sides;
  solveTriangular(System<T>{size, columns, &at(0, 0), step * size, step,
                            sides.data() + last * pitch, step * pitch, isUnit});
  for (int64_t row = 0; row < size; ++row)
    for (int64_t column = 0; column < pitch; ++column) {
      auto place = [&](int64_t r) {
        return (last + step * r) * pitch + column;
      };
      if (column >= columns) {
        EXPECT_EQ(sides[place(row)], given[place(row)]);
        continue;
      }
      double sum = isUnit ? double(sides[place(row)]) : 0;
      for (int64_t k = 0; k < row + !isUnit; ++k)
        sum += double(at(row, k)) * sides[place(k)];
      EXPECT_NEAR(sum, given[place(row)],
                  8 * double(std::numeric_limits<T>::epsilon()))
          << size << " x " << columns << " at " << row << ", " << column;
    }
}

TEST(Triangular, SolvesAnySizes) {
  for (int64_t size : {1, 3, 4, 5, 16, 33})
    for (int64_t columns : {1, 7, 16, 31, 64, 133})
      for (bool isUnit : {false, true})
        for (bool backwards : {false, true}) {
          checkSystem<float>(size, columns, isUnit, backwards);
          checkSystem<double>(size, columns, isUnit, backwards);
        }
}

} // namespace anabranch::solve
