//===- Lanes16.cpp - transforms in vectors of 16 bytes --------------------===//
// SPDX-License-Identifier: Apache-2.0

#define ANABRANCH_FFT_VECTOR_BYTES 16
#include "fft/LaneJob.h"

namespace anabranch::fft {

const LaneCode *laneCode16() { return &code; }

} // namespace anabranch::fft
