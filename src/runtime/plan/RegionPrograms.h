//===- RegionPrograms.h - regions that commands run -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_PLAN_REGIONPROGRAMS_H
#define ANABRANCH_RUNTIME_PLAN_REGIONPROGRAMS_H

#include "anabranch/Executable.h"

namespace anabranch::runtime {

/// The regions of a program, ready to run. Any thread.
class RegionPrograms {
public:
  virtual ~RegionPrograms() = default;

  /// Runs region `number`, as a call of its own: it has its own frame and
  /// arena.
  virtual Status run(int number, const InputValue *inputs, size_t inputCount,
                     OutputValue *outputs, size_t outputCount,
                     OutputAllocator &allocator) const = 0;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_PLAN_REGIONPROGRAMS_H
