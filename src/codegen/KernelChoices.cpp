//===- KernelChoices.cpp - the ways to make a kernel, in order ------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/KernelChoices.h"

#include "codegen/attention/AttentionKernel.h"
#include "codegen/gemm/GemmKernel.h"
#include "codegen/loops/LoopKernel.h"
#include "codegen/quantized/QuantizedKernel.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

ArrayRef<KernelChoice> kernelChoices() {
  // Loops come last: they refuse nothing.
  static const KernelChoice choices[] = {quantizedKernel, gemmKernel,
                                         attentionKernel, loopKernel};
  return choices;
}

} // namespace codegen
} // namespace anabranch
