//===- VectorBlocking.h - blocks of a product in vector registers -*- C++ -===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_CONTRACTION_VECTORBLOCKING_H
#define ANABRANCH_KERNELS_CONTRACTION_VECTORBLOCKING_H

#include "kernels/contraction/BlockingParameters.h"
#include "kernels/contraction/Contraction.h"
#include "kernels/contraction/ProductLayout.h"
#include "native/target/Target.h"

namespace anabranch {
namespace kernels {

/// A product in blocks of accumulators in vector registers, which read panels
/// of the right operand from a cache.
struct VectorBlocking {
  ProductLayout layout;
  /// How many bytes ahead of its use a right operand in panels is fetched.
  int64_t bytesAhead = 0;

  /// Parameters in `given` are taken, not chosen.
  static VectorBlocking choose(const Contraction &contraction,
                               const native::TargetInfo &target,
                               const BlockingParameters &given = {});
};

/// For which products constants are packed into panels.
enum class PanelsFor {
  Rows,   ///< the best for the product's own number of rows
  AnyRows ///< one for all numbers of rows, unless tile registers read them
};

/// The best panels to pack a constant right operand into. None if the operator
/// has no kernel that reads panels.
std::optional<Panels> panelsOfVectors(const Contraction &contraction,
                                      const native::TargetInfo &target,
                                      PanelsFor purpose);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_CONTRACTION_VECTORBLOCKING_H
