//===- Triangular.h - systems of triangular matrices ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
//   [ a . . ] [ x0 ]   [ b0 ]        x0 = b0 / a
//   [ b c . ] [ x1 ] = [ b1 ]        x1 = (b1 - b x0) / c
//   [ d e f ] [ x2 ]   [ b2 ]        x2 = (b2 - d x0 - e x1) / f
//
// Each row of the result is a vector of columns, which are independent.

#ifndef ANABRANCH_SOLVE_TRIANGULAR_H
#define ANABRANCH_SOLVE_TRIANGULAR_H

#include <cstdint>

namespace anabranch::solve {

/// A lower triangular matrix, of which nothing above the diagonal is read, and
/// the right sides, which the results replace. Strides are in elements. An
/// upper triangular matrix is a lower one whose strides go backwards.
template <typename T> struct System {
  int64_t size, columns;
  const T *matrix;
  int64_t matrixRow, matrixColumn;
  T *sides; ///< neighbours of a row are one element apart
  int64_t sidesRow;
  bool isUnit; ///< the diagonal is one, and not read
};

/// Solves the system with the widest vectors of this processor.
template <typename T> void solveTriangular(const System<T> &system);

} // namespace anabranch::solve

#endif // ANABRANCH_SOLVE_TRIANGULAR_H
