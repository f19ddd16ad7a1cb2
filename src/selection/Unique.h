//===- Unique.h - the different numbers of a tensor, sorted -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SELECTION_UNIQUE_H
#define ANABRANCH_SELECTION_UNIQUE_H

#include "anabranch/Tensor.h"

#include <cstdint>
#include <vector>

namespace anabranch::selection {

class Unique {
public:
  /// Takes `count` contiguous numbers of a dtype that has keys (Keys.h). If
  /// `inverse` is not null, it gets for each number the place of its equal
  /// among the different ones.
  Unique(const void *numbers, DType dtype, int64_t count, int64_t *inverse);

  int64_t size() const { return static_cast<int64_t>(keys.size()); }
  /// Writes `size()` numbers in order; two NaN are different.
  void writeNumbers(void *numbers) const;
  /// Writes how often each number comes.
  void writeCounts(int64_t *counts) const;

private:
  template <typename Entry, typename Found>
  void gather(const std::vector<Entry> &sorted, Found found);

  DType dtype;
  int64_t total;
  std::vector<uint64_t> keys;
  std::vector<int64_t> firsts; ///< the place of each in sorted order
};

} // namespace anabranch::selection

#endif // ANABRANCH_SELECTION_UNIQUE_H
