//===- Tuning.h - plans of kernels that were timed --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A caller of the compiler may time the plans of a kernel and choose one. A
// kernel is identified by what it computes, so its key is the same in every
// graph.

#ifndef ANABRANCH_KERNELS_TUNING_H
#define ANABRANCH_KERNELS_TUNING_H

#include "mlir/IR/BuiltinOps.h"
#include "native/target/Target.h"
#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace anabranch {
namespace kernels {

/// Plans, as texts of BlockingParameters, by key of the kernel.
using Blockings = llvm::StringMap<std::string>;

/// A kernel whose plan can be set.
struct TunableKernel {
  /// A plan with its parameters, and estimated cycles of one core.
  struct Candidate {
    std::string parameters; ///< text of BlockingParameters
    double cycles;
  };

  std::string name, key;
  std::vector<Candidate> candidates; ///< the first is the default
};

/// The kernels in `module` that have several candidates. Lists at most `most`
/// of each.
std::vector<TunableKernel> listTunableKernels(mlir::ModuleOp module,
                                              const native::TargetInfo &target,
                                              size_t most);

/// Marks the kernels that `blockings` names. compileKernels reads the marks.
void setBlockings(mlir::ModuleOp module, const Blockings &blockings);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_TUNING_H
