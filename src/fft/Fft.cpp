//===- Fft.cpp - the transforms that kernels call -------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "fft/Fft.h"

#include "fft/PlanCache.h"

#include <cmath>

namespace anabranch::fft {

static Kind kindOf(int64_t kind) {
  if (kind == ANABRANCH_FFT_REAL_TO_HALF)
    return Kind::RealToHalf;
  return kind == ANABRANCH_FFT_HALF_TO_REAL ? Kind::HalfToReal : Kind::Complex;
}

static double scaleOf(const anabranch_fft_job &job) {
  if (job.norm == ANABRANCH_FFT_BY_ROOT_OF_LENGTH)
    return 1 / std::sqrt(double(job.length));
  return job.norm == ANABRANCH_FFT_BY_LENGTH ? 1 / double(job.length) : 1;
}

template <typename T>
static void transformAs(const anabranch_fft_job &given, RunJob<T> run) {
  Kind kind = kindOf(given.kind);
  auto tables = tablesOf<T>(kind, given.length);
  Job<T> job{};
  job.kind = kind;
  job.length = given.length;
  job.inverse = given.inverse != 0;
  job.scale = T(scaleOf(given));
  job.plan = &tables->plan;
  job.halving = tables->halving.data();
  job.rows = given.rows;
  job.across = given.across != 0;
  for (int part = 0; part < 2; ++part) {
    job.from[part] = static_cast<const T *>(given.from[part]);
    job.to[part] = static_cast<T *>(given.to[part]);
  }
  job.fromPitch = given.from_pitch;
  job.toPitch = given.to_pitch;
  job.work = static_cast<T *>(given.work);
  run(job);
}

void transformWith(const LaneCode &code, const anabranch_fft_job &job) {
  if (job.length < 1 || job.rows < 1)
    return;
  if (job.element_bytes == 4)
    transformAs<float>(job, code.runFloat);
  else
    transformAs<double>(job, code.runDouble);
}

void transform(const anabranch_fft_job *job) {
  transformWith(laneCode(), *job);
}

} // namespace anabranch::fft
