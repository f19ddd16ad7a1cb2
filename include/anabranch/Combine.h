//===- Combine.h - one package for several processors -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_COMBINE_H
#define ANABRANCH_COMBINE_H

#include "anabranch/Status.h"
#include "anabranch/Tensor.h"

#include <string>
#include <vector>

namespace anabranch {

/// A package made for one processor, and the name of its folder.
struct TargetPackage {
  std::string name;
  std::string path;
};

/// The first value of an input that calls update in place. Row-major
/// contiguous.
struct StateValue {
  std::string input;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  const void *data = nullptr;
};

struct CombineOptions {
  /// JSON: {"inputs": [{"name", "state"}], "outputs": [name], ...}. Empty:
  /// none.
  std::string signature;
  std::vector<StateValue> state;
  bool replace = false; ///< replace a package that exists at the path
};

/// Writes the package `path`, which holds copies of all of `targets`. Each of
/// them was compiled from the same graph and weights, for another processor.
/// If this machine can run a target, the package also gets the target's
/// prepared weights. Any thread.
ANABRANCH_API Status combinePackages(const std::string &path,
                                     const std::vector<TargetPackage> &targets,
                                     const CombineOptions &options = {});

} // namespace anabranch

#endif // ANABRANCH_COMBINE_H
