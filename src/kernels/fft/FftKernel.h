//===- FftKernel.h - the plan of Fourier transforms -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_FFT_FFTKERNEL_H
#define ANABRANCH_KERNELS_FFT_FFTKERNEL_H

#include "kernels/emit/Plan.h"

namespace anabranch {
namespace kernels {

/// Computes anabranch.fft. A tile gathers rows in its scratch memory, has the
/// runtime transform them (anabranch_fft_job of KernelABI.h), and stores the
/// results.
extern const PlanRow fftRow;

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_FFT_FFTKERNEL_H
