//===- Lanes64.cpp - transforms in vectors of 64 bytes --------------------===//
// SPDX-License-Identifier: Apache-2.0

#ifdef __AVX512F__
#define ANABRANCH_FFT_VECTOR_BYTES 64
#include "fft/LaneJob.h"
#else
#include "fft/Lanes.h"
#endif

namespace anabranch::fft {

const LaneCode *laneCode64() {
#ifdef __AVX512F__
  return &code;
#else
  return nullptr;
#endif
}

} // namespace anabranch::fft
