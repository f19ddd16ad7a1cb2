//===- PlanCache.h - plans that transforms have used lately -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_FFT_PLANCACHE_H
#define ANABRANCH_FFT_PLANCACHE_H

#include "fft/Lanes.h"

namespace anabranch::fft {

/// The tables that a job of a kind and a length reads.
template <typename T> struct Tables {
  Tables(Kind kind, int64_t length);

  Plan<T> plan;
  std::vector<T> halving;
};

/// The tables, made if they are not among those used lately. Any thread.
template <typename T>
std::shared_ptr<const Tables<T>> tablesOf(Kind kind, int64_t length);

/// The number of tables of each dtype that are kept.
constexpr size_t mostTables = 32;

} // namespace anabranch::fft

#endif // ANABRANCH_FFT_PLANCACHE_H
