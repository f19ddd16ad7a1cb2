//===- FftKernel.cpp - the plan of Fourier transforms ---------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/fft/FftKernel.h"

#include "ir/Sizes.h"
#include "kernels/fft/FftEmitter.h"

#include <cmath>

using namespace mlir;

namespace anabranch {
namespace kernels {
namespace {

class FftPlan : public Plan {
public:
  FftPlan(ir::FftOp op, Destination destination,
          const native::TargetInfo &target)
      : op(op), destination(std::move(destination)), target(target) {}

  /// The usual count: of each complex element five operations, and so half as
  /// many multiply-adds, for each halving of the length.
  double cost() const override {
    ir::FftOp transform = op;
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(transform.getResult().getType()).getShape();
    auto sizeOf = [](int64_t size) {
      return double(ShapedType::isDynamic(size) ? ir::typicalSize
                                                : std::max<int64_t>(size, 1));
    };
    double elements = 1;
    for (int64_t size : shape)
      elements *= sizeOf(size);
    double halvings =
        std::log2(std::max(sizeOf(shape[transform.getDimension()]), 2.0));
    return elements * halvings * 2.5 / target.rate(native::Multiply::FmaF32);
  }

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
  const native::TargetInfo &target;
};

Proposal propose(func::FuncOp kernel, const native::TargetInfo &target) {
  auto transforms = kernel.front().getOps<ir::FftOp>();
  if (transforms.empty())
    return Proposal::refuse("it has no transform");
  if (!llvm::hasSingleElement(transforms) || kernel.getNumResults() != 1)
    return Proposal::refuse("it has more than a transform");
  ir::FftOp op = *transforms.begin();
  SmallVector<Written> written = findWritten(kernel, 0);
  if (written.size() != 1 || written[0].value != op.getResult())
    return Proposal::refuse("its result is not that of the transform");
  return {
      std::make_unique<FftPlan>(op, std::move(written[0].destination), target),
      {}};
}

} // namespace

const PlanRow fftRow{"fft", propose};

} // namespace kernels
} // namespace anabranch
