//===- ProgramVerifier.h - is this program sound? ---------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_PACKAGE_VERIFY_PROGRAMVERIFIER_H
#define ANABRANCH_PACKAGE_VERIFY_PROGRAMVERIFIER_H

#include "anabranch/Status.h"
#include "package/program_generated.h"

#include <cstddef>

namespace anabranch::package {

/// Of one program: the executor keeps sets of them in a word.
constexpr size_t streamLimit = 62;

/// Launches of one super kernel.
constexpr size_t superLimit = 4096;

/// Everything that the runtime relies on without looking again: indices are in
/// range, kinds agree, static ranges lie inside their memory, nothing writes
/// what is read-only, every event is recorded once and no stream waits forever,
/// accesses are free of races. An error says which entry is wrong.
Status verifyProgram(const ProgramT &program);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_VERIFY_PROGRAMVERIFIER_H
