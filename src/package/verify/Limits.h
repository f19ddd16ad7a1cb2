//===- Limits.h - how large a program may be --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PACKAGE_VERIFY_LIMITS_H
#define ANABRANCH_PACKAGE_VERIFY_LIMITS_H

#include <cstddef>

namespace anabranch::package {

/// Streams of one program. The executor keeps sets of streams in one word.
constexpr size_t streamLimit = 62;

/// Regions of one program. Their commands may nest as deep.
constexpr size_t regionLimit = 256;

/// Launches of one super kernel.
constexpr size_t superLimit = 4096;

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_VERIFY_LIMITS_H
