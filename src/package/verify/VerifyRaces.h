//===- VerifyRaces.h - are all conflicting accesses ordered? ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PACKAGE_VERIFY_VERIFYRACES_H
#define ANABRANCH_PACKAGE_VERIFY_VERIFYRACES_H

#include "package/verify/SerialOrder.h"

namespace anabranch::package {

/// Proves that stream order and events order every two accesses to overlapping
/// bytes of which one writes, and that no command overwrites a part of what it
/// uses itself. An error names both places. Indices and static ranges must be
/// checked before.
///
/// Parts of the arena whose place depends on sizes count as disjoint if their
/// offsets differ. The runtime checks that whenever sizes change.
Status verifyRaces(const ProgramT &program, const Streams &streams);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_VERIFY_VERIFYRACES_H
