//===- ScatterTiles.h - how a scatter is cut into tiles ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A scatter that is a group of its own, and writes results, goes through its
// tensors row by row. Its tiles are, of the first that holds:
//
// 1. positions of the shared loops outside of the first serial loop;
// 2. ranges of the first serial loop, if an update is a whole row there: each
//    tile copies its rows, and adds the updates that the kernel's setup has
//    found to be its own (scatters/RangeLists.h);
// 3. ranges of a shared loop whose elements are neighbours in memory.

#ifndef ANABRANCH_KERNELS_NESTS_SCATTERTILES_H
#define ANABRANCH_KERNELS_NESTS_SCATTERTILES_H

#include "kernels/emit/KernelFunction.h"
#include "kernels/nests/KernelModel.h"

namespace anabranch {
namespace kernels {

/// Chooses the tiles of such a group. Returns false for other groups.
bool chooseScatterTiles(const KernelModel &model, NestGroup &group);

/// The number of updates that a tile looks at, for each position of the shared
/// loops. A row of neighbours is one.
mlir::Value updatesPerPosition(KernelFunction &function, const LoopNest &nest,
                               bool countRows);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_NESTS_SCATTERTILES_H
