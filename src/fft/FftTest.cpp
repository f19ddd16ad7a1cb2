//===- FftTest.cpp - transforms against sums in a wider type --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "fft/Fft.h"

#include "fft/PlanCache.h"
#include "machine/processor/CpuFeatures.h"
#include "gtest/gtest.h"

#include <cmath>
#include <complex>
#include <cstdlib>
#include <new>
#include <random>
#include <thread>

using namespace anabranch::fft;

namespace {

using Wide = std::complex<long double>;
constexpr long double pi = 3.141592653589793238462643383279502884L;

/// Memory that starts at a multiple of the alignment.
template <typename T> struct Memory {
  explicit Memory(int64_t bytes)
      : data(static_cast<T *>(std::aligned_alloc(64, (bytes + 63) / 64 * 64))) {
  }
  ~Memory() { std::free(data); }
  T *data;
};

/// The transform of one row, by its definition.
std::vector<Wide> definition(const std::vector<Wide> &row, bool inverse) {
  int64_t n = int64_t(row.size());
  std::vector<Wide> turns(n), result(n);
  for (int64_t k = 0; k < n; ++k)
    turns[k] = std::polar(1.0L, (inverse ? 2 : -2) * pi * k / n);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t k = 0; k < n; ++k)
      result[j] += row[k] * turns[j * k % n];
  return result;
}

/// One job over random rows, and the largest error of the first or the last row
/// in roundings of the row's largest element.
template <typename T> class Trial {
public:
  Trial(int64_t kind, int64_t length, bool across, bool inverse = false,
        int64_t norm = ANABRANCH_FFT_NO_NORM)
      : kind(kind), length(length), across(across), inverse(inverse),
        half(length / 2 + 1),
        pitch(across ? rows : (length + rows - 1) / rows * rows),
        plane(across ? pitch * length : pitch * rows),
        memory(int64_t(sizeof(T)) * 4 * plane),
        work(ANABRANCH_FFT_WORK_BYTES(length)) {
    job.kind = kind, job.norm = norm, job.inverse = inverse;
    job.element_bytes = sizeof(T), job.length = length, job.rows = rows;
    job.across = across, job.from_pitch = job.to_pitch = pitch;
    for (int part = 0; part < 2; ++part) {
      job.from[part] = memory.data + part * plane;
      job.to[part] = memory.data + (2 + part) * plane;
    }
    job.work = work.data;
  }

  double error(double scale = 1, const LaneCode &code = laneCode()) {
    std::mt19937 random(length);
    std::normal_distribution<double> normal;
    for (int64_t i = 0; i < 4 * plane; ++i)
      memory.data[i] = T(normal(random));
    std::vector<std::vector<Wide>> wanted;
    for (int64_t row : {int64_t(0), rows - 1})
      wanted.push_back(expected(row));
    transformWith(code, job);
    double worst = std::max(errorOf(0, wanted[0], scale),
                            errorOf(rows - 1, wanted[1], scale));
    return worst / std::numeric_limits<T>::epsilon();
  }

private:
  static constexpr int64_t rows = 64 / sizeof(T);
  int64_t kind, length;
  bool across, inverse;
  int64_t half, pitch, plane;
  Memory<T> memory, work;
  anabranch_fft_job job{};

  T &at(int64_t number, int64_t row, int64_t k) {
    return memory
        .data[number * plane + (across ? k * pitch + row : row * pitch + k)];
  }

  std::vector<Wide> expected(int64_t row) {
    std::vector<Wide> given(length);
    bool isReal = kind == ANABRANCH_FFT_REAL_TO_HALF;
    for (int64_t k = 0; k < length; ++k)
      given[k] = {at(0, row, k), isReal ? 0 : at(1, row, k)};
    if (kind == ANABRANCH_FFT_HALF_TO_REAL) {
      given[0] = given[0].real();
      if (length % 2 == 0)
        given[half - 1] = given[half - 1].real();
      for (int64_t k = 1; k < half; ++k)
        given[length - k] = std::conj(given[k]);
    }
    return definition(given, inverse || kind == ANABRANCH_FFT_HALF_TO_REAL);
  }

  double errorOf(int64_t row, const std::vector<Wide> &wanted, double scale) {
    bool isReal = kind == ANABRANCH_FFT_HALF_TO_REAL;
    int64_t count = kind == ANABRANCH_FFT_REAL_TO_HALF ? half : length;
    long double worst = 0, largest = 0;
    for (int64_t k = 0; k < count; ++k) {
      Wide found(at(2, row, k), isReal ? 0 : at(3, row, k));
      Wide right = wanted[k] * static_cast<long double>(scale);
      worst = std::max(worst, std::abs(found - right));
      largest = std::max(largest, std::abs(right));
    }
    return double(worst / largest);
  }
};

constexpr int64_t lengths[] = {1,  2,  3,  4,   5,   6,   7,   8,   9,  11, 12,
                               13, 14, 15, 16,  20,  31,  32,  49,  61, 64, 67,
                               97, 98, 99, 100, 128, 134, 240, 243, 509};
constexpr int64_t kinds[] = {ANABRANCH_FFT_COMPLEX, ANABRANCH_FFT_REAL_TO_HALF,
                             ANABRANCH_FFT_HALF_TO_REAL};

template <typename T> void checkAll() {
  for (int64_t length : lengths)
    for (int64_t kind : kinds)
      for (bool across : {false, true})
        EXPECT_LT(Trial<T>(kind, length, across).error(), 4)
            << "kind " << kind << ", " << length << " points"
            << (across ? ", across" : "");
}

TEST(Fft, TransformsFloats) { checkAll<float>(); }
TEST(Fft, TransformsDoubles) { checkAll<double>(); }

TEST(Fft, InvertsAndScales) {
  for (int64_t length : {1, 6, 64, 67}) {
    int64_t kind = ANABRANCH_FFT_COMPLEX;
    EXPECT_LT(Trial<float>(kind, length, true, true).error(), 4);
    Trial<float> mean(kind, length, false, true, ANABRANCH_FFT_BY_LENGTH);
    EXPECT_LT(mean.error(1.0 / length), 4);
    Trial<double> root(kind, length, false, false,
                       ANABRANCH_FFT_BY_ROOT_OF_LENGTH);
    EXPECT_LT(root.error(1 / std::sqrt(double(length))), 4);
  }
}

TEST(Fft, HasCodeForVectorsOfEachWidth) {
  std::vector<const LaneCode *> codes{laneCode16()};
  if (laneCode32() && anabranch::machine::vectorBytes() >= 32)
    codes.push_back(laneCode32());
  if (laneCode64() && anabranch::machine::vectorBytes() == 64)
    codes.push_back(laneCode64());
  for (const LaneCode *code : codes)
    for (int64_t length : {5, 64, 67, 98})
      for (int64_t kind : kinds)
        for (bool across : {false, true}) {
          EXPECT_LT(Trial<float>(kind, length, across).error(1, *code), 4);
          EXPECT_LT(Trial<double>(kind, length, across).error(1, *code), 4);
        }
}

TEST(Fft, KeepsFewTables) {
  auto first = tablesOf<float>(Kind::Complex, 48);
  EXPECT_EQ(tablesOf<float>(Kind::Complex, 48), first);
  for (int64_t length = 1; length <= int64_t(mostTables); ++length)
    tablesOf<float>(Kind::Complex, length);
  EXPECT_NE(tablesOf<float>(Kind::Complex, 48), first);
}

TEST(Fft, ServesSeveralThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (int64_t length = 1; length < 100; ++length)
        EXPECT_LT(Trial<float>(ANABRANCH_FFT_COMPLEX, length, true).error(), 4);
    });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace
