//===- SolveOperators.cpp - systems of equations --------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/operators/SolveOperators.h"

#include "runtime/operators/OwnCall.h"
#include "solve/Triangular.h"

#include <algorithm>
#include <cstring>

namespace anabranch::runtime {

namespace {

/// What the call says of its matrices.
struct Triangle {
  int64_t size;
  bool isUpper, isLeft, isUnit;

  /// The system of one matrix. The sides are rows of `columns`, one for each
  /// row of the matrix.
  template <typename T>
  solve::System<T> system(const T *matrix, T *sides, int64_t columns) const {
    solve::System<T> s{size, columns, matrix, size, 1, sides, columns, isUnit};
    // X A = B is A' X' = B'.
    if (!isLeft)
      std::swap(s.matrixRow, s.matrixColumn);
    if (isUpper == isLeft && size) {
      s.matrix += size * size - 1;
      s.sides += (size - 1) * columns;
      s.matrixRow = -s.matrixRow;
      s.matrixColumn = -s.matrixColumn;
      s.sidesRow = -columns;
    }
    return s;
  }
};

template <typename T>
void transpose(const T *from, int64_t rows, int64_t columns, T *to) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      to[column * rows + row] = from[row * columns + column];
}

/// Solves for one matrix after another. `made` has the right sides, which the
/// results replace: `others` vectors for each matrix.
template <typename T>
void solveEach(const Triangle &triangle, const T *matrix, int64_t count,
               int64_t others, T *made) {
  int64_t size = triangle.size;
  std::vector<T> turned(triangle.isLeft ? 0 : size * others);
  for (int64_t i = 0; i < count; ++i) {
    T *sides = made + i * size * others;
    T *rows = triangle.isLeft ? sides : turned.data();
    if (!triangle.isLeft)
      transpose(sides, others, size, rows);
    solveTriangular(triangle.system(matrix + i * size * size, rows, others));
    if (!triangle.isLeft)
      transpose(rows, size, others, sides);
  }
}

/// The shape of `view` with the batch of both.
std::vector<int64_t> batched(const TensorView &view, const TensorView &other) {
  std::vector<int64_t> shape(std::max(view.rank, other.rank));
  auto sizeAt = [](const TensorView &tensor, int64_t fromEnd) {
    return fromEnd < tensor.rank ? tensor.shape[tensor.rank - 1 - fromEnd] : 1;
  };
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t own = sizeAt(view, i);
    shape[shape.size() - 1 - i] = i < 2 || own != 1 ? own : sizeAt(other, i);
  }
  return shape;
}

} // namespace

void runSolveTriangular(OwnCall &call) {
  TensorView matrix = call.tensor("self"), sides = call.tensor("B");
  Triangle triangle{0, call.boolean("upper"),
                    !call.has("left") || call.boolean("left"),
                    call.has("unitriangular") && call.boolean("unitriangular")};
  if (!call.ok())
    return;
  bool isFloat = matrix.dtype == DType::F32 || matrix.dtype == DType::F64;
  if (!isFloat || sides.dtype != matrix.dtype)
    return call.fail("takes two tensors of f32, or two of f64");
  if (matrix.rank < 2 || sides.rank < 2)
    return call.fail("takes matrices");
  triangle.size = matrix.shape[matrix.rank - 1];
  int32_t dim = sides.rank - (triangle.isLeft ? 2 : 1);
  if (matrix.shape[matrix.rank - 2] != triangle.size ||
      sides.shape[dim] != triangle.size)
    return call.fail("takes a square matrix and right sides of its size");
  std::vector<int64_t> matrixShape = batched(matrix, sides);
  std::vector<int64_t> shape = batched(sides, matrix);
  matrix = call.broadcast(matrix, matrixShape);
  sides = call.broadcast(sides, shape);
  void *made = call.ok() ? call.make(0, sides.dtype, shape) : nullptr;
  if (!call.ok() || !elementsOf(sides))
    return;
  std::memcpy(made, sides.data, elementsOf(sides) * itemSize(sides.dtype));
  int64_t count = countOf(shape.data(), shape.data() + shape.size() - 2);
  int64_t others = shape[shape.size() - (triangle.isLeft ? 1 : 2)];
  if (matrix.dtype == DType::F32)
    solveEach(triangle, static_cast<const float *>(matrix.data), count, others,
              static_cast<float *>(made));
  else
    solveEach(triangle, static_cast<const double *>(matrix.data), count, others,
              static_cast<double *>(made));
}

} // namespace anabranch::runtime
