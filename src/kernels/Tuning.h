//===- Tuning.h - blockings of kernels that were timed ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A caller of the compiler may time the blockings of a kernel and choose one. A
// kernel is identified by what it computes, so its key is the same in every
// graph.

#ifndef ANABRANCH_KERNELS_TUNING_H
#define ANABRANCH_KERNELS_TUNING_H

#include "kernels/contraction/BlockingCandidates.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace anabranch {
namespace kernels {

/// Blockings, as texts of BlockingParameters, by key of the kernel.
using Blockings = llvm::StringMap<std::string>;

/// A kernel whose blocking can be set.
struct TunableKernel {
  std::string name, key;
  std::vector<BlockingCandidate> candidates; ///< the first is the default
};

/// The kernels of products in `module` that have several candidates. Lists at
/// most `most` candidates of each.
std::vector<TunableKernel> listTunableKernels(mlir::ModuleOp module,
                                              const native::TargetInfo &target,
                                              size_t most);

/// Marks the kernels that `blockings` names. compileKernels reads the marks.
void setBlockings(mlir::ModuleOp module, const Blockings &blockings);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_TUNING_H
