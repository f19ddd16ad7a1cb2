//===- CountOperators.h - repeat positions, and count numbers ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_OPERATORS_COUNTOPERATORS_H
#define ANABRANCH_RUNTIME_OPERATORS_COUNTOPERATORS_H

namespace anabranch::runtime {

class OwnCall;

/// aten::repeat_interleave.Tensor(repeats, output_size)
void runRepeatInterleave(OwnCall &call);
/// aten::bincount(self, weights, minlength), with weights of f32 or f64.
void runBincount(OwnCall &call);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_OPERATORS_COUNTOPERATORS_H
