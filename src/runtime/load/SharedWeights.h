//===- SharedWeights.h - weights that programs have in common ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_LOAD_SHAREDWEIGHTS_H
#define ANABRANCH_RUNTIME_LOAD_SHAREDWEIGHTS_H

#include "runtime/plan/Plan.h"

#include <unordered_map>
#include <vector>

namespace anabranch::runtime {

/// The weights of a donor: its constants, and the results of its `initialize`.
/// They are read-only from then on.
class SharedWeights {
public:
  void add(const Plan &plan);
  /// The address of equal bytes; null if there are none.
  const void *find(const void *data, size_t size) const;

private:
  std::unordered_map<size_t, std::vector<const void *>> places; ///< by size
};

/// Address and size of a buffer's bytes that stay from call to call; null for
/// other buffers.
std::pair<const void *, size_t> weightBytesOf(const Plan &plan,
                                              const BufferPlan &buffer);

/// Returns the pages of `memory` outside of the ranges [begin, end) to the
/// system. They read as zero from then on. Returns how many bytes are left.
size_t dropAllBut(std::vector<std::pair<size_t, size_t>> ranges, void *memory,
                  size_t size);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_LOAD_SHAREDWEIGHTS_H
