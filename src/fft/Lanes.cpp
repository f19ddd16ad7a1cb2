//===- Lanes.cpp - the width of vectors that this processor has -----------===//
// SPDX-License-Identifier: Apache-2.0

#include "fft/Lanes.h"

#include "machine/processor/CpuFeatures.h"

namespace anabranch::fft {

static const LaneCode &chooseLaneCode() {
  if (laneCode64() && machine::cpuHas("avx512f"))
    return *laneCode64();
  if (laneCode32() && machine::cpuHas("avx2") && machine::cpuHas("fma"))
    return *laneCode32();
  return *laneCode16();
}

const LaneCode &laneCode() {
  static const LaneCode &chosen = chooseLaneCode();
  return chosen;
}

} // namespace anabranch::fft
