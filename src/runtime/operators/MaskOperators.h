//===- MaskOperators.h - select and assign by a mask ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_OPERATORS_MASKOPERATORS_H
#define ANABRANCH_RUNTIME_OPERATORS_MASKOPERATORS_H

namespace anabranch::runtime {

class OwnCall;

/// aten::nonzero(self)
void runNonzero(OwnCall &call);
/// aten::nonzero_static(self, size, fill_value)
void runNonzeroStatic(OwnCall &call);
/// aten::index.Tensor(self, indices), where one index is a mask and the others
/// are None.
void runIndex(OwnCall &call);
/// aten::masked_select(self, mask)
void runMaskedSelect(OwnCall &call);
/// aten::index_put(self, indices, values, accumulate=False), with such indices.
void runIndexPut(OwnCall &call);
/// aten::masked_scatter(self, mask, source)
void runMaskedScatter(OwnCall &call);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_OPERATORS_MASKOPERATORS_H
