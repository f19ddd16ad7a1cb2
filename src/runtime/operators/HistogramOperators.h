//===- HistogramOperators.h - count numbers between edges -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_OPERATORS_HISTOGRAMOPERATORS_H
#define ANABRANCH_RUNTIME_OPERATORS_HISTOGRAMOPERATORS_H

namespace anabranch::runtime {

class OwnCall;

/// aten::histc(self, bins, min, max) of f32 or f64. Equal bounds stand for
/// those of the data.
void runHistc(OwnCall &call);
/// aten::histogram.bin_ct(self, bins, range, weight, density) and
/// aten::histogram.bins_tensor(self, bins, weight, density), of f32 or f64.
void runHistogram(OwnCall &call);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_OPERATORS_HISTOGRAMOPERATORS_H
