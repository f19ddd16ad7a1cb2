//===- Passes.h - passes that make dispatches -------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_SCHEDULE_FUSION_PASSES_H
#define ANABRANCH_SCHEDULE_FUSION_PASSES_H

#include "mlir/Pass/Pass.h"

#include <functional>

namespace mlir {
namespace linalg {
class GenericOp;
} // namespace linalg
} // namespace mlir

namespace anabranch {

/// `anabranch-sink-channels`: keeps channels last between convolutions, at
/// level "linalg".
std::unique_ptr<mlir::Pass> createSinkChannelsPass();

/// `anabranch-collapse-reshapes`: moves reshapes behind the operators that read
/// them, at level "linalg".
std::unique_ptr<mlir::Pass> createCollapseReshapesPass();

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

/// `anabranch-form-dispatches`: level "linalg" to level "dispatch".
std::unique_ptr<mlir::Pass> createFormDispatchesPass();

/// `anabranch-verify-dispatches`: fails unless @main holds only dispatches,
/// calls, whole-buffer reshapes and index arithmetic.
std::unique_ptr<mlir::Pass> createVerifyDispatchesPass();

/// Leaves out the passes that pack: a command line has no kernels to choose
/// for.
inline void registerFusionPasses() {
  mlir::registerPass(createSinkChannelsPass);
  mlir::registerPass(createCollapseReshapesPass);
  mlir::registerPass(createFormDispatchesPass);
  mlir::registerPass(createVerifyDispatchesPass);
}

} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_FUSION_PASSES_H
