//===- Tuning.h - blockings of kernels that were timed ----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Whoever compiles may time the blockings of a kernel and have one of them
// used. A kernel is known by what it computes: its key is the same in every
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

/// Texts of BlockingParameters by keys of kernels.
using Blockings = llvm::StringMap<std::string>;

/// A kernel whose blocking can be set.
struct TunableKernel {
  std::string name, key;
  std::vector<BlockingCandidate> candidates; ///< the first is the default
};

/// The kernels of products in `module` that have more than one of at most
/// `most` candidates.
std::vector<TunableKernel> listTunableKernels(mlir::ModuleOp module,
                                              const TargetInfo &target,
                                              size_t most);

/// Marks the kernels that `blockings` names, for compileKernels.
void setBlockings(mlir::ModuleOp module, const Blockings &blockings);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_TUNING_H
