//===- ChosenProduct.h - the plan that a product gets -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SUPPORT_CODEGEN_CHOSENPRODUCT_H
#define ANABRANCH_SUPPORT_CODEGEN_CHOSENPRODUCT_H

#include "kernels/Plans.h"
#include "kernels/contraction/BlockingParameters.h"
#include "kernels/gemm/ProductPlan.h"
#include "llvm/ADT/StringSwitch.h"

#include "gtest/gtest.h"

namespace anabranch {
namespace kernels {

/// The plan that makes the kernel of a product, with the parameters that the
/// function has. The test fails if no plan of a product makes it.
class ChosenProduct {
public:
  ChosenProduct(mlir::func::FuncOp kernel, const native::TargetInfo &target)
      : considered(considerPlans(kernel, target)) {
    auto text =
        kernel->getAttrOfType<mlir::StringAttr>(BlockingParameters::attribute);
    auto given = BlockingParameters::parse(text ? text.getValue() : "");
    EXPECT_TRUE(given);
    chosen = choosePlan(considered, given->plan);
    bool isProduct =
        llvm::StringSwitch<bool>(chosen->row->name)
            .Cases("tile_blocks", "row_dots", "row_sums", "vector_blocks", true)
            .Default(false);
    EXPECT_TRUE(isProduct) << refusalsOf(considered);
    if (isProduct)
      layout = static_cast<ProductPlan &>(*chosen->proposal.plan).layout;
  }

  llvm::StringRef name() const { return chosen->row->name; }
  bool usesTileRegisters() const { return layout.usesTileRegisters(); }

  ProductLayout layout = {};

private:
  std::vector<Considered> considered;
  const Considered *chosen;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_SUPPORT_CODEGEN_CHOSENPRODUCT_H
