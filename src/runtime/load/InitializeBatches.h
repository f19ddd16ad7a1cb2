//===- InitializeBatches.h - weights packed a few at a time -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_LOAD_INITIALIZEPARTS_H
#define ANABRANCH_RUNTIME_LOAD_INITIALIZEPARTS_H

#include "runtime/plan/Plan.h"

namespace anabranch::runtime {

/// Returns the commands of `whole` with these numbers in its serial order, as
/// one stream.
Commands selectCommands(const Commands &whole,
                        const std::vector<size_t> &numbers);

/// Cuts the initialisation of a program into consecutive batches. Each reads at
/// most `bytes` of constants, or has one command. After each batch the pages of
/// its constants can be given back, so that loading needs memory for the packed
/// weights and little else. Empty if cutting gains nothing, or if the
/// initialisation calls the host.
std::vector<Commands> cutByReads(const Plan &plan, const Commands &whole,
                                 int64_t bytes);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_LOAD_INITIALIZEPARTS_H
