//===- FftKernel.cpp - the plan of Fourier transforms ---------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/fft/FftKernel.h"

#include "kernels/fft/FftEmitter.h"

using namespace mlir;

namespace anabranch {
namespace kernels {
namespace {

class FftPlan : public Plan {
public:
  FftPlan(ir::FftOp op, Destination destination)
      : op(op), destination(std::move(destination)) {}

  PlanCost cost() const override { return {PlanCost::Rank::Special}; }

  KernelShell::Grid grid(KernelFunction &function) const override {
    FftRows rows(op, function);
    return {rows.tileCount(), FftEmitter(rows, destination).scratchBytes()};
  }

  void emitTile(KernelShell::TileBody &body) const override {
    FftRows rows(op, body.function);
    FftEmitter(rows, destination)
        .emitTile(body.evaluator, body.scratch, body.tile);
  }

  void emitFootprint(KernelShell::FootprintBody &body) const override {
    FftRows rows(op, body.function);
    FftRows::Tile tile = rows.tileAt(body.tile);
    TileFootprint footprint(body.function);
    for (Value operand : rows.operands())
      footprint.reads(operand, rows.ranges(footprint.ranges, tile, operand),
                      [](Value) { return false; });
    footprint.writes(destination,
                     rows.ranges(footprint.ranges, tile, rows.op.getResult()));
    footprint.store(body.footprints);
  }

private:
  ir::FftOp op;
  Destination destination;
};

Proposal propose(func::FuncOp kernel, const native::TargetInfo &) {
  auto transforms = kernel.front().getOps<ir::FftOp>();
  if (transforms.empty())
    return Proposal::refuse("it has no transform");
  if (!llvm::hasSingleElement(transforms) || kernel.getNumResults() != 1)
    return Proposal::refuse("it has more than a transform");
  ir::FftOp op = *transforms.begin();
  SmallVector<Written> written = findWritten(kernel, 0);
  if (written.size() != 1 || written[0].value != op.getResult())
    return Proposal::refuse("its result is not that of the transform");
  return {std::make_unique<FftPlan>(op, std::move(written[0].destination)), {}};
}

} // namespace

const PlanRow fftRow{"fft", propose};

} // namespace kernels
} // namespace anabranch
