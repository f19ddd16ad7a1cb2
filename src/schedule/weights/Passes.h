//===- Passes.h - frozen weights as kernels read them -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The caller of these passes says, by a function, which kernel will read a
// weight. A command line cannot pass a function, so anabranch-opt does not know
// these passes.

#ifndef ANABRANCH_SCHEDULE_WEIGHTS_PASSES_H
#define ANABRANCH_SCHEDULE_WEIGHTS_PASSES_H

#include "mlir/Pass/Pass.h"

#include <functional>

namespace mlir {
namespace linalg {
class GenericOp;
} // namespace linalg
} // namespace mlir

namespace anabranch {

/// The layout of a packed operand: [batch..., ceil(columns / width),
/// ceil(depths / kPack), width, kPack]. The last dimension is left out if
/// `kPack`, the K-pack (VNNI) factor, is one.
struct PanelLayout {
  unsigned operand;
  llvm::SmallVector<unsigned> batch; ///< loops of the contraction
  unsigned column, depth;            ///< loops of the contraction
  int64_t width, kPack;
};
using ChoosePanels =
    std::function<std::optional<PanelLayout>(mlir::linalg::GenericOp)>;

/// `anabranch-pack-constants`: packs steady operands of matrix products as
/// panels, in `initialize`. `choose` gives the layout for each product.
std::unique_ptr<mlir::Pass> createPackConstantsPass(ChoosePanels choose);

/// The operand of a contraction that a kernel reads in few bits, its loops,
/// whether the kernel may round the other operand to bytes, and whether bytes
/// of two integers of four bits are to have those of two columns.
struct WeightRole {
  unsigned operand, column, depth;
  bool roundsLeft = false;
  bool pairsColumns = false;
};
using ChooseWeight =
    std::function<std::optional<WeightRole>(mlir::linalg::GenericOp)>;

/// `anabranch-pack-quantized`: keeps steady weights that are dequantised from 4
/// or 8 bits in these bits, in the layout of ir/QuantizedWeight.h. `choose`
/// names the operand.
std::unique_ptr<mlir::Pass> createPackQuantizedPass(ChooseWeight choose);

} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_WEIGHTS_PASSES_H
