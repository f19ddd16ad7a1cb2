//===- Combine.h - one package for several processors -----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

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

/// The first value of an input that is written in place: row-major contiguous.
struct StateValue {
  std::string input;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  const void *data = nullptr;
};

struct CombineOptions {
  /// {"inputs": [{"name", "state"}], "outputs": [name], ...}; empty: none.
  std::string signature;
  std::vector<StateValue> state;
  bool replace = false; ///< a package that exists at the place
};

/// Writes the package `path`, which holds all of `targets`: compiled from one
/// graph and the same weights, each for a processor of its own. Where this
/// machine can run a target, its prepared weights are stored too. The packages
/// stay as they are. Any thread.
ANABRANCH_API Status combinePackages(const std::string &path,
                                     const std::vector<TargetPackage> &targets,
                                     const CombineOptions &options = {});

} // namespace anabranch

#endif // ANABRANCH_COMBINE_H
