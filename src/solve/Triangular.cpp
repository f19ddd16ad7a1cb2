//===- Triangular.cpp - systems of triangular matrices --------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// A block of rows and columns of the result is in registers: first it takes off
// the products with all rows above the block, then its own rows one by one.
//
// The code is compiled once for each width of vectors. All of it is inlined in
// the function that has the instructions.

#include "solve/Triangular.h"

#include "machine/processor/CpuFeatures.h"

#include <algorithm>
#include <cstring>

namespace anabranch::solve {

namespace {

#define ANABRANCH_INLINE [[gnu::always_inline]] inline

/// Four rows of four vectors leave registers for a row above and an element.
constexpr int rowsOfBlock = 4, vectorsOfBlock = 4;
/// Products are added in sums of their own, so that fewer roundings are as
/// large as those of the right sides.
constexpr int64_t summedApart = 16;

template <typename T, int bytes> struct Vector {
  using Type [[gnu::vector_size(bytes)]] = T;
};
template <typename T> struct Vector<T, sizeof(T)> {
  using Type = T;
};

/// One block: `rows` rows from `row` on, of `vectors` vectors.
template <typename T, int bytes, int rows, int vectors>
ANABRANCH_INLINE void solveBlock(const System<T> &s, int64_t row, T *sides) {
  using Lanes = typename Vector<T, bytes>::Type;
  constexpr int lanes = bytes / sizeof(T);
  const T *matrix = s.matrix + row * s.matrixRow;
  Lanes sums[rows][vectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v)
      std::memcpy(&sums[r][v], sides + (row + r) * s.sidesRow + v * lanes,
                  bytes);
  for (int64_t above = 0; above < row; above += summedApart) {
    Lanes products[rows][vectors] = {};
    for (int64_t k = above; k < std::min(row, above + summedApart); ++k) {
      Lanes known[vectors];
      for (int v = 0; v < vectors; ++v)
        std::memcpy(&known[v], sides + k * s.sidesRow + v * lanes, bytes);
      for (int r = 0; r < rows; ++r) {
        T factor = matrix[r * s.matrixRow + k * s.matrixColumn];
        for (int v = 0; v < vectors; ++v)
          products[r][v] += known[v] * factor;
      }
    }
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < vectors; ++v)
        sums[r][v] -= products[r][v];
  }
  for (int r = 0; r < rows; ++r) {
    const T *own = matrix + r * s.matrixRow + row * s.matrixColumn;
    for (int q = 0; q < r; ++q)
      for (int v = 0; v < vectors; ++v)
        sums[r][v] -= sums[q][v] * own[q * s.matrixColumn];
    for (int v = 0; v < vectors; ++v) {
      if (!s.isUnit)
        sums[r][v] /= own[r * s.matrixColumn];
      std::memcpy(sides + (row + r) * s.sidesRow + v * lanes, &sums[r][v],
                  bytes);
    }
  }
}

/// The columns of some vectors.
template <typename T, int bytes, int vectors>
ANABRANCH_INLINE void solveColumns(const System<T> &s, T *sides) {
  int64_t row = 0;
  for (; row + rowsOfBlock <= s.size; row += rowsOfBlock)
    solveBlock<T, bytes, rowsOfBlock, vectors>(s, row, sides);
  for (; row < s.size; ++row)
    solveBlock<T, bytes, 1, vectors>(s, row, sides);
}

template <typename T, int bytes>
ANABRANCH_INLINE void solveAll(const System<T> &s) {
  constexpr int64_t lanes = bytes / sizeof(T), block = vectorsOfBlock * lanes;
  int64_t column = 0;
  for (; column + block <= s.columns; column += block)
    solveColumns<T, bytes, vectorsOfBlock>(s, s.sides + column);
  for (; column + lanes <= s.columns; column += lanes)
    solveColumns<T, bytes, 1>(s, s.sides + column);
  for (; column < s.columns; ++column)
    solveColumns<T, sizeof(T), 1>(s, s.sides + column);
}

template <typename T> using Solve = void (*)(const System<T> &);

template <typename T> void solve16(const System<T> &system) {
  solveAll<T, 16>(system);
}

#ifdef __x86_64__
template <typename T>
[[gnu::target("avx2,fma")]] void solve32(const System<T> &system) {
  solveAll<T, 32>(system);
}
template <typename T>
[[gnu::target("avx512f,fma")]] void solve64(const System<T> &system) {
  solveAll<T, 64>(system);
}
#endif

template <typename T> Solve<T> chooseSolve() {
#ifdef __x86_64__
  int bytes = machine::vectorBytes();
  if (bytes == 64)
    return solve64<T>;
  if (bytes == 32)
    return solve32<T>;
#endif
  return solve16<T>;
}

} // namespace

template <typename T> void solveTriangular(const System<T> &system) {
  static const Solve<T> chosen = chooseSolve<T>();
  chosen(system);
}

template void solveTriangular(const System<float> &system);
template void solveTriangular(const System<double> &system);

} // namespace anabranch::solve
