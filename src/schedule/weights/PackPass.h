//===- PackPass.h - a pass that packs operands of products ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_WEIGHTS_PACKPASS_H
#define ANABRANCH_SCHEDULE_WEIGHTS_PACKPASS_H

#include "ir/Anabranch.h"
#include "ir/PassBase.h"
#include "schedule/fusion/Generics.h"
#include "schedule/fusion/OpKinds.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace anabranch {
namespace schedule {

/// A pass in which a `Packer` of @main packs an operand of each contraction.
/// `choose` says how, or leaves the contraction out. A null `choose` packs
/// nothing.
template <typename Packer, typename Choice>
std::unique_ptr<mlir::Pass> makePackPass(
    llvm::StringLiteral argument, llvm::StringLiteral description,
    std::function<std::optional<Choice>(mlir::linalg::GenericOp)> choose) {
  auto pack = [choose = std::move(choose)](mlir::func::FuncOp main) {
    if (!choose)
      return mlir::success();
    Packer packer(main);
    for (mlir::linalg::GenericOp op : genericsOf(main))
      if (classify(op) == OpKind::Contraction)
        if (std::optional<Choice> chosen = choose(op))
          packer.pack(op, *chosen);
    return mlir::success();
  };
  return ir::makePass<mlir::func::FuncOp, ir::AnabranchDialect,
                      mlir::arith::ArithDialect, mlir::linalg::LinalgDialect,
                      mlir::tensor::TensorDialect>(argument, description, pack);
}

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_WEIGHTS_PACKPASS_H
