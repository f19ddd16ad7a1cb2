//===- Mask.h - which elements of a tensor are true -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The room `selection` computes what selects, counts and repeats, on contiguous
// memory. The runtime's operators call it (runtime/operators).
//
//   elements  0 7 0 0 2 ...
//   words     bit i of word i / 64: whether element i is true
//
// One pass over the elements makes the words. All that follows reads these.

#ifndef ANABRANCH_SELECTION_MASK_H
#define ANABRANCH_SELECTION_MASK_H

#include "anabranch/Tensor.h"

#include <cstdint>
#include <vector>

namespace anabranch::selection {

class Mask {
public:
  /// Takes `count` contiguous elements. Every element that is not zero is
  /// true, and so is NaN.
  Mask(const void *elements, DType dtype, int64_t count);

  /// How many elements are true.
  int64_t trues() const { return found; }

  /// Calls `visit` with the position of each element that is true, in order.
  template <typename Visit> void forEach(Visit visit) const {
    for (size_t word = 0; word < words.size(); ++word)
      for (uint64_t bits = words[word]; bits; bits &= bits - 1)
        visit(static_cast<int64_t>(64 * word) + __builtin_ctzll(bits));
  }

private:
  std::vector<uint64_t> words;
  int64_t found = 0;
};

/// Writes the indices of each element that is true: `trues()` rows of `rank`
/// numbers. The mask has `shape`.
void writePositions(const Mask &mask, const int64_t *shape, int32_t rank,
                    int64_t *positions);

} // namespace anabranch::selection

#endif // ANABRANCH_SELECTION_MASK_H
