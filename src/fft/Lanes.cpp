//===- Lanes.cpp - the width of vectors that this processor has -----------===//
// SPDX-License-Identifier: Apache-2.0

#include "fft/Lanes.h"

#include "machine/processor/CpuFeatures.h"

namespace anabranch::fft {

static const LaneCode &chooseLaneCode() {
  int bytes = machine::vectorBytes();
  if (bytes == 64 && laneCode64())
    return *laneCode64();
  if (bytes >= 32 && laneCode32())
    return *laneCode32();
  return *laneCode16();
}

const LaneCode &laneCode() {
  static const LaneCode &chosen = chooseLaneCode();
  return chosen;
}

} // namespace anabranch::fft
