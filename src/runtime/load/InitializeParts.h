//===- InitializeParts.h - weights packed a few at a time -------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_LOAD_INITIALIZEPARTS_H
#define ANABRANCH_RUNTIME_LOAD_INITIALIZEPARTS_H

#include "runtime/plan/Plan.h"

namespace anabranch::runtime {

/// The initialisation of a program cut into consecutive pieces, each of which
/// reads at most `bytes` of constants, or has one command. So the pages of the
/// constants that one piece has read can be given back before the next one
/// runs: loading needs memory for the packed weights and little else. Empty
/// where it is not worth cutting, or has calls of the host.
std::vector<Commands> cutByReads(const Plan &plan, const Commands &whole,
                                 int64_t bytes);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_LOAD_INITIALIZEPARTS_H
