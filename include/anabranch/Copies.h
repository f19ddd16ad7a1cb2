//===- Copies.h - what calls of an executable copied ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_COPIES_H
#define ANABRANCH_COPIES_H

#include "anabranch/Executable.h"

namespace anabranch {

/// How many arguments the calls of an executable have copied because their
/// memory is not aligned to their dtype. Any thread.
ANABRANCH_API uint64_t copiedArguments(const Executable &executable);

} // namespace anabranch

#endif // ANABRANCH_COPIES_H
