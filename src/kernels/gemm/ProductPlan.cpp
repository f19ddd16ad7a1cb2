//===- ProductPlan.cpp - what all plans of products share -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/gemm/ProductPlan.h"

#include "kernels/gemm/GemmFootprint.h"
#include "kernels/gemm/RowGroups.h"
#include "kernels/operands/LeftOperand.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

Value ScratchMemory::take(int64_t elements) {
  Value part = next;
  next = gemm.memory.pointerTo(part, gemm.lanes.index(elements));
  return part;
}

KernelShell::Grid ProductPlan::grid(KernelFunction &function) const {
  GemmContext gemm(contraction, layout, function);
  LaneBuilder &lanes = gemm.lanes;
  Value tiles = gemm.tileCount();
  Value elements = lanes.addIndex(lanes.index(scratchElements(gemm)),
                                  LeftOperand::scratchElements(gemm));
  return {tiles,
          lanes.mulIndex(elements, lanes.index(gemm.memory.elementBytes()))};
}

void ProductPlan::emitTile(KernelShell::TileBody &body) const {
  GemmContext gemm(contraction, layout, body.function);
  gemm.evaluator = &body.evaluator;
  gemm.enterTile(body.tile);
  forEachGroup(gemm, mostRowsOfGroup(),
               [&] { emitRows(gemm, ScratchMemory(gemm, body.scratch)); });
}

void ProductPlan::emitFootprint(KernelShell::FootprintBody &body) const {
  GemmContext gemm(contraction, layout, body.function);
  TileFootprint footprint(body.function);
  addGemmFootprint(gemm, footprint, body.tile);
  footprint.store(body.footprints);
}

std::optional<Contraction> findProduct(func::FuncOp kernel,
                                       const native::TargetInfo &target,
                                       std::string &why) {
  return Contraction::find(kernel, why);
}

} // namespace kernels
} // namespace anabranch
