//===- RowOrder.h - reductions that go row by row ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A reduction along rows, as that of x[m, n] over m, may keep its partial
// results of a few columns in registers while it goes down the rows. Then it
// reads some lines of each row, and a processor's prefetch ends at each. From
// memory such a sum is several times as fast if it reads whole rows and keeps
// the partial results of all their columns in the first-level cache.

#ifndef ANABRANCH_KERNELS_NESTS_ROWORDER_H
#define ANABRANCH_KERNELS_NESTS_ROWORDER_H

#include "kernels/nests/KernelModel.h"
#include "native/target/Target.h"

namespace anabranch {
namespace kernels {

/// Bytes of each row in a tile: a page, at whose end the processor's prefetch
/// begins anew. Shorter rows are whole in it.
inline int64_t bytesOfRow(const native::TargetInfo &target) {
  return target.model.pageBytes;
}
/// Partial results of one level that the next level adds up at once.
constexpr int64_t partsOfLevel = 32;

/// The bytes of the narrowest element that the group reads.
int64_t narrowestRead(const NestGroup &group);

/// Chooses the order of rows for the group's reductions, where it pays. Call
/// chooseLanes before.
void chooseRowOrder(const KernelModel &model, NestGroup &group,
                    const native::TargetInfo &target);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_NESTS_ROWORDER_H
