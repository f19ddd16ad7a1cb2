//===- BlockShapes.h - blocks of accumulators in vector registers -*- C++ -===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_CONTRACTION_BLOCKSHAPES_H
#define ANABRANCH_KERNELS_CONTRACTION_BLOCKSHAPES_H

#include "kernels/contraction/VectorWords.h"

#include <vector>

namespace anabranch {
namespace kernels {

/// The shape of a block of accumulators in vector registers, and the measured
/// cost of a multiply-add in it, relative to the best shape.
struct BlockShape {
  int64_t rows, vectors;
  double cost;
};

/// The conditions that a block shape must fit.
struct WantedBlock {
  std::optional<int64_t> rows, columns; ///< if they are known
  std::optional<int64_t> vectors = {};  ///< of a panel, which blocks divide
  int64_t panels = 1;                   ///< at least this many, of two vectors
  bool isEven = false;                  ///< an even number of vectors
  Widening widening = {};
  int64_t registers = 16;

  static WantedBlock of(const Contraction &contraction,
                        const native::TargetInfo &target,
                        const VectorWords &words);
};

/// The shapes that multiply such words.
llvm::ArrayRef<BlockShape> shapesFor(const native::TargetInfo &target,
                                     const Word &word);
/// The cost of a multiply-add of the product in blocks of this shape; none if
/// the shape does not fit.
std::optional<double> costOf(const BlockShape &shape, int64_t lanes,
                             const WantedBlock &wanted);
/// The block shape that computes least in vain; none if no shape fits.
std::optional<BlockShape> chooseShape(llvm::ArrayRef<BlockShape> shapes,
                                      int64_t lanes, const WantedBlock &wanted);

/// The shapes that fit a product, the best first. Their costs include the rows
/// and columns that blocks compute in vain.
std::vector<BlockShape> blockShapes(const Contraction &contraction,
                                    const native::TargetInfo &target);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_CONTRACTION_BLOCKSHAPES_H
