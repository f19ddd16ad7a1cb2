//===- Tuning.h - blockings of kernels that were timed ----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A caller of the compiler may time the blockings of a kernel and choose one. A
// kernel is identified by what it computes, so its key is the same in every
// graph.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_TUNING_H
#define ANABRANCH_CODEGEN_TUNING_H

#include "codegen/contraction/BlockingCandidates.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace anabranch {
namespace codegen {

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
                                              const TargetInfo &target,
                                              size_t most);

/// Marks the kernels that `blockings` names. compileKernels reads the marks.
void setBlockings(mlir::ModuleOp module, const Blockings &blockings);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_TUNING_H
