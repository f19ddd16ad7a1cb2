//===- Passes.h - frozen weights as kernels read them -----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// These passes ask which kernel will read a weight, so that no command line
// knows them.
//
//===----------------------------------------------------------------------===//

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

/// How an operand of a contraction is packed: [batch..., ceil(columns / width),
/// ceil(depths / kPack), width, kPack], without the last if `kPack`, the K-pack
/// (VNNI) factor, is one.
struct PanelLayout {
  unsigned operand;
  llvm::SmallVector<unsigned> batch; ///< loops
  unsigned column, depth;            ///< loops
  int64_t width, kPack;
};
using ChoosePanels =
    std::function<std::optional<PanelLayout>(mlir::linalg::GenericOp)>;

/// `anabranch-pack-constants`: frozen operands of matrix products become panels
/// that are made once, at load, as `choose` says for each product.
std::unique_ptr<mlir::Pass> createPackConstantsPass(ChoosePanels choose);

/// Which operand of a contraction is a weight that a kernel would rather read
/// in few bits, and its loops.
struct WeightRole {
  unsigned operand, column, depth;
};
using ChooseWeight =
    std::function<std::optional<WeightRole>(mlir::linalg::GenericOp)>;

/// `anabranch-pack-quantized`: frozen weights that are dequantised from 4 or 8
/// bits keep them, in the layout of ir/QuantizedWeight.h, where `choose` names
/// an operand.
std::unique_ptr<mlir::Pass> createPackQuantizedPass(ChooseWeight choose);

} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_WEIGHTS_PASSES_H
