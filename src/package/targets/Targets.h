//===- Targets.h - which processor's code to run ----------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_PACKAGE_TARGETS_TARGETS_H
#define ANABRANCH_PACKAGE_TARGETS_TARGETS_H

#include "package/files/Manifest.h"

namespace anabranch::package {

/// Why this CPU can't run what was made for that one; empty when it can.
std::string whyNotHere(const std::string &cpu,
                       const std::vector<std::string> &features);

/// The target that is to be run: `wanted`, else what ANABRANCH_TARGET says,
/// else the first that this CPU can run. Null for a package that has its
/// program at the top. Refuses what the CPU can't run, if `checkCpu`.
Expected<const ManifestTarget *> chooseTarget(const Manifest &manifest,
                                              const std::string &wanted,
                                              bool checkCpu);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_TARGETS_TARGETS_H
