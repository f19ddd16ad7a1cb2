//===- ProgramVerifier.h - is this program sound? ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PACKAGE_VERIFY_PROGRAMVERIFIER_H
#define ANABRANCH_PACKAGE_VERIFY_PROGRAMVERIFIER_H

#include "anabranch/Status.h"
#include "package/program_generated.h"
#include "package/verify/Limits.h"

namespace anabranch::package {

/// Checks everything that the runtime relies on: indices are in range, kinds
/// agree, static ranges are inside their memory, nothing writes read-only
/// memory, every event is recorded once, no stream waits forever, and accesses
/// are free of races. An error names the wrong entry.
Status verifyProgram(const ProgramT &program);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_VERIFY_PROGRAMVERIFIER_H
