//===- CombineTargets.h - one package of several ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PACKAGE_FOLDER_COMBINETARGETS_H
#define ANABRANCH_PACKAGE_FOLDER_COMBINETARGETS_H

#include "package/folder/Reader.h"
#include "package/folder/Writer.h"

namespace anabranch::package {

/// A package with its program at the top. It becomes one target of the
/// combination.
struct LoadedTarget {
  std::string name;
  std::unique_ptr<Package> package;
  /// The memory that its `initialize` fills; null if it did not run.
  const void *prepared = nullptr;
};

struct Combination {
  std::vector<LoadedTarget> targets;
  std::string signature; ///< JSON text; empty: none
  /// First values of states. Each has the name of its input.
  std::vector<Constant> state;
  bool replace = false; ///< replace a package that exists there
};

/// Whether loading the package runs `initialize`.
bool initializes(const Package &package);

/// Writes the folder `path`, whole or not at all. All packages were compiled
/// from one graph with the same constants. Any thread.
Status combineTargets(const std::string &path, Combination combination);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_FOLDER_COMBINETARGETS_H
