//===- ProductPlan.h - what all plans of products share ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A plan of a product chooses a layout, and emits the loops of rows that share
// a right operand:
//
//   for each group of rows of the tile   | all rows, unless the product is
//     find and check its right operand   | grouped
//     emitRows                           | of the plan
//
// A tile is a strip of rows times one or several panels of columns.

#ifndef ANABRANCH_KERNELS_GEMM_PRODUCTPLAN_H
#define ANABRANCH_KERNELS_GEMM_PRODUCTPLAN_H

#include "kernels/contraction/BlockingParameters.h"
#include "kernels/contraction/ProductCost.h"
#include "kernels/emit/Plan.h"
#include "kernels/operands/GemmContext.h"

namespace anabranch {
namespace kernels {

/// The scratch memory of a tile, of which parts are taken one after the other.
class ScratchMemory {
public:
  ScratchMemory(GemmContext &gemm, mlir::Value start)
      : gemm(gemm), next(start) {}

  /// The address of so many elements of the accumulators' type.
  mlir::Value take(int64_t elements);
  /// The address after all parts.
  mlir::Value rest() const { return next; }

private:
  GemmContext &gemm;
  mlir::Value next;
};

class ProductPlan : public Plan {
public:
  ProductPlan(const Contraction &contraction, const native::TargetInfo &target,
              const ProductLayout &layout)
      : contraction(contraction), layout(layout), target(target) {}

  const Contraction contraction;
  const ProductLayout layout;

  double cost() const override { return cyclesOf(layout); }
  KernelShell::Grid grid(KernelFunction &function) const override;
  void emitTile(KernelShell::TileBody &body) const override;
  void emitFootprint(KernelShell::FootprintBody &body) const override;

protected:
  const native::TargetInfo &target;

  /// The cost of a multiply-add in another layout of the plan, relative to the
  /// processor's rate (ProductCost.h).
  virtual double shareOf(const Tiling &) const { return 1; }
  double cyclesOf(const ProductLayout &other) const {
    return estimateCycles(contraction, target, other, shareOf(other.tiling));
  }
  /// The elements of the scratch memory that `emitRows` takes. A copy of the
  /// left operand follows them.
  virtual int64_t scratchElements(const GemmContext &gemm) const = 0;
  virtual void emitRows(GemmContext &gemm, ScratchMemory memory) const = 0;
  /// How many rows of a group `emitRows` multiplies at most; 0: all.
  virtual int64_t mostRowsOfGroup() const { return 0; }
};

/// The product of a kernel, if the target can multiply. None, and why, if there
/// is no plan of a product.
std::optional<Contraction> findProduct(mlir::func::FuncOp kernel,
                                       const native::TargetInfo &target,
                                       std::string &why);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_GEMM_PRODUCTPLAN_H
