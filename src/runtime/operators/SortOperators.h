//===- SortOperators.h - put numbers in order -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_OPERATORS_SORTOPERATORS_H
#define ANABRANCH_RUNTIME_OPERATORS_SORTOPERATORS_H

namespace anabranch::runtime {

class OwnCall;

/// aten::sort(self, dim, descending) and aten::sort.stable. The result is
/// always stable.
void runSort(OwnCall &call);
/// aten::topk(self, k, dim, largest, sorted). The result is always sorted, and
/// of equal elements the first are taken.
void runTopK(OwnCall &call);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_OPERATORS_SORTOPERATORS_H
