//===- KernelChoices.cpp - the ways to make a kernel, in order ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/KernelChoices.h"

#include "kernels/attention/AttentionKernel.h"
#include "kernels/gemm/GemmKernel.h"
#include "kernels/loops/LoopKernel.h"
#include "kernels/quantized/QuantizedKernel.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

ArrayRef<KernelChoice> kernelChoices() {
  // Loops come last: they refuse nothing.
  static const KernelChoice choices[] = {quantizedKernel, gemmKernel,
                                         attentionKernel, loopKernel};
  return choices;
}

} // namespace kernels
} // namespace anabranch
