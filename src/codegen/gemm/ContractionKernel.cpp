//===- ContractionKernel.cpp - the kernel choice of products --------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/gemm/ContractionKernel.h"

#include "codegen/footprint/TileFootprint.h"
#include "codegen/gemm/ContractionEmitter.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

static std::optional<std::string> refusal(func::FuncOp kernel,
                                          const TargetInfo &target) {
  std::string why;
  if (!target.fma)
    return "the target has no fused multiply-add";
  if (!Contraction::find(kernel, why))
    return why;
  return std::nullopt;
}

static LogicalResult emit(KernelShell &shell) {
  std::string why;
  std::optional<Contraction> contraction = Contraction::find(shell.source, why);
  if (!contraction)
    return shell.source.emitError(why);
  ContractionTiling tiling =
      ContractionTiling::choose(*contraction, shell.target);
  return shell.emit(
      [&](KernelShell::TileBody &body) {
        ContractionEmitter emitter(*contraction, tiling, body.frame);
        emitter.emitTile(body.evaluator, body.scratch, body.tile);
      },
      [&](KernelFrame &frame) {
        ContractionEmitter emitter(*contraction, tiling, frame);
        return KernelShell::Plan{emitter.tiles(), emitter.scratchBytes()};
      },
      [&](KernelShell::FootprintBody &body) {
        ContractionEmitter emitter(*contraction, tiling, body.frame);
        TileFootprint footprint(body.frame);
        emitter.emitFootprint(footprint, body.tile);
        footprint.store(body.footprints);
      });
}

const KernelChoice contractionKernel{"contraction", refusal, emit};

} // namespace codegen
} // namespace anabranch
