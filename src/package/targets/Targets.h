//===- Targets.h - which processor's code to run ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PACKAGE_TARGETS_TARGETS_H
#define ANABRANCH_PACKAGE_TARGETS_TARGETS_H

#include "package/files/Manifest.h"

namespace anabranch::package {

/// Why this CPU cannot run code for that one; empty if it can.
std::string whyNotHere(const std::string &cpu,
                       const std::vector<std::string> &features);

/// The target to run: `wanted`, else the value of ANABRANCH_TARGET, else the
/// first one that this CPU can run. Null for a package with its program at the
/// top. With `checkCpu`, a target that the CPU cannot run is refused.
Expected<const ManifestTarget *> chooseTarget(const Manifest &manifest,
                                              const std::string &wanted,
                                              bool checkCpu);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_TARGETS_TARGETS_H
