//===- UniqueOperators.h - find what differs --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_OPERATORS_UNIQUEOPERATORS_H
#define ANABRANCH_RUNTIME_OPERATORS_UNIQUEOPERATORS_H

namespace anabranch::runtime {

class OwnCall;

/// aten::_unique2(self, sorted, return_inverse, return_counts). The result is
/// always sorted.
void runUnique(OwnCall &call);
/// aten::unique_dim(self, dim, sorted, return_inverse, return_counts). The
/// result is always sorted.
void runUniqueDim(OwnCall &call);
/// aten::unique_consecutive(self, return_inverse, return_counts, dim)
void runUniqueConsecutive(OwnCall &call);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_OPERATORS_UNIQUEOPERATORS_H
