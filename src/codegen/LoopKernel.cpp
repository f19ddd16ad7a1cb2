//===- LoopKernel.cpp - the kernel choice of plain loops ------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/LoopKernel.h"

#include "codegen/GroupEmitter.h"
#include "codegen/SplitFrames.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

static std::optional<std::string> refusal(func::FuncOp, const TargetInfo &) {
  return std::nullopt;
}

/// Each group owns the next so many tiles.
static void emitGroups(KernelModel &model, KernelShell::TileBody &body) {
  LaneBuilder &lanes = body.frame.lanes;
  if (model.groups.size() == 1) {
    GroupEmitter emitter(model, model.groups[0], body.evaluator, body.scratch);
    return emitter.emitTile(body.tile);
  }
  Value first = lanes.index(0);
  for (const Group &group : model.groups) {
    Value last = lanes.addIndex(first, makeGrid(body.frame, group).tiles);
    Value after =
        lanes.make<arith::CmpIOp>(arith::CmpIPredicate::sge, body.tile, first);
    Value before =
        lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt, body.tile, last);
    Value inside = lanes.make<arith::AndIOp>(after, before);
    lanes.ifThen(inside, [&] {
      GroupEmitter emitter(model, group, body.evaluator, body.scratch);
      emitter.emitTile(lanes.subIndex(body.tile, first));
    });
    first = last;
  }
}

static KernelShell::Plan planGroups(const KernelModel &model,
                                    KernelFrame &frame) {
  LaneBuilder &lanes = frame.lanes;
  KernelShell::Plan plan{lanes.index(0), lanes.index(0)};
  for (const Group &group : model.groups) {
    plan.tiles = lanes.addIndex(plan.tiles, makeGrid(frame, group).tiles);
    plan.scratchBytes =
        lanes.maxIndex(plan.scratchBytes, planScratch(frame, group).bytes);
  }
  return plan;
}

static LogicalResult emit(KernelShell &shell) {
  splitFrames(shell.source);
  FailureOr<KernelModel> model = KernelModel::build(shell.source, shell.target);
  if (failed(model))
    return failure();
  return shell.emit(
      [&](KernelShell::TileBody &body) { emitGroups(*model, body); },
      [&](KernelFrame &frame) { return planGroups(*model, frame); });
}

const KernelChoice loopKernel{"loops", refusal, emit};

} // namespace codegen
} // namespace anabranch
