//===- CombineTargets.h - one package of several ----------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_PACKAGE_FOLDER_COMBINETARGETS_H
#define ANABRANCH_PACKAGE_FOLDER_COMBINETARGETS_H

#include "package/folder/Reader.h"
#include "package/folder/Writer.h"

namespace anabranch::package {

/// A package with its program at the top, that becomes one target.
struct TargetPart {
  std::string name;
  std::unique_ptr<Package> package;
  /// What its `initialize` makes; null where nobody ran it.
  const void *prepared = nullptr;
};

struct Combination {
  std::vector<TargetPart> targets;
  std::string signature; ///< JSON text; empty: none
  /// First values, named as the inputs that they are for.
  std::vector<Constant> state;
  bool replace = false; ///< a package that exists there
};

/// Whether loading has something to compute.
bool initializes(const Package &package);

/// Writes the folder `path` of packages that were compiled from one graph with
/// the same constants: whole or not at all. Any thread.
Status combineTargets(const std::string &path, Combination combination);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_FOLDER_COMBINETARGETS_H
