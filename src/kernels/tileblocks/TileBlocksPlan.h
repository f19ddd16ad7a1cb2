//===- TileBlocksPlan.h - the plan of blocks in tile registers --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_TILEBLOCKS_TILEBLOCKSPLAN_H
#define ANABRANCH_KERNELS_TILEBLOCKS_TILEBLOCKSPLAN_H

#include "kernels/emit/Plan.h"

namespace anabranch {
namespace kernels {

/// Products in blocks of tile registers, which multiply bytes, bf16, and floats
/// in parts of bf16.
extern const PlanRow tileBlocksRow;

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_TILEBLOCKS_TILEBLOCKSPLAN_H
