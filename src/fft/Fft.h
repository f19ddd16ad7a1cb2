//===- Fft.h - the transforms that kernels call -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Fourier transforms of rows, in f32 and f64, of any length. A kernel gathers
// rows in its scratch memory, and calls `transform` through a pointer that the
// runtime gives to its library (KernelABI.h).

#ifndef ANABRANCH_FFT_FFT_H
#define ANABRANCH_FFT_FFT_H

#include "anabranch/KernelABI.h"

namespace anabranch::fft {

struct LaneCode;

/// Does what `job` says, with the widest vectors of this processor. Any thread.
void transform(const anabranch_fft_job *job);

/// Does it with vectors of another width.
void transformWith(const LaneCode &code, const anabranch_fft_job &job);

} // namespace anabranch::fft

#endif // ANABRANCH_FFT_FFT_H
