//===- Lanes32.cpp - transforms in vectors of 32 bytes --------------------===//
// SPDX-License-Identifier: Apache-2.0

#ifdef __AVX2__
#define ANABRANCH_FFT_VECTOR_BYTES 32
#include "fft/LaneJob.h"
#else
#include "fft/Lanes.h"
#endif

namespace anabranch::fft {

const LaneCode *laneCode32() {
#ifdef __AVX2__
  return &code;
#else
  return nullptr;
#endif
}

} // namespace anabranch::fft
