//===- Inspect.h - a package in words ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_INSPECT_H
#define ANABRANCH_INSPECT_H

#include "anabranch/Status.h"

#include <string>

namespace anabranch {

/// The manifest and the program of the package `path` as readable text. It
/// checks the package as `Executable::open` does, except for the CPU's
/// features, and runs nothing of it. Any thread.
ANABRANCH_API Expected<std::string> inspectPackage(const std::string &path);

} // namespace anabranch

#endif // ANABRANCH_INSPECT_H
