//===- GemmKernel.cpp - the kernel choice of products ---------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/gemm/GemmKernel.h"

#include "kernels/gemm/GemmEmitter.h"
#include "kernels/gemm/GemmFootprint.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

static std::optional<std::string> refusal(func::FuncOp kernel,
                                          const native::TargetInfo &target) {
  std::string why;
  if (!Contraction::find(kernel, why))
    return why;
  return std::nullopt;
}

static LogicalResult emit(KernelShell &shell) {
  std::string why;
  std::optional<Contraction> contraction = Contraction::find(shell.source, why);
  if (!contraction)
    return shell.source.emitError(why);
  BlockingParameters given;
  if (auto tuned = shell.source->getAttrOfType<StringAttr>(
          BlockingParameters::attribute)) {
    auto parsed = BlockingParameters::parse(tuned.getValue());
    if (!parsed)
      return shell.source.emitError("has no blocking '") << tuned << "'";
    given = *parsed;
  }
  GemmBlocking blocking =
      GemmBlocking::choose(*contraction, shell.target, given);
  return shell.emit(
      [&](KernelShell::TileBody &body) {
        GemmContext gemm(*contraction, blocking, body.function);
        GemmEmitter(gemm).emitTile(body.evaluator, body.scratch, body.tile);
      },
      [&](KernelFunction &function) {
        GemmContext gemm(*contraction, blocking, function);
        return KernelShell::Plan{gemm.tileCount(),
                                 GemmEmitter(gemm).scratchBytes()};
      },
      [&](KernelShell::FootprintBody &body) {
        GemmContext gemm(*contraction, blocking, body.function);
        TileFootprint footprint(body.function);
        addGemmFootprint(gemm, footprint, body.tile);
        footprint.store(body.footprints);
      });
}

const KernelChoice gemmKernel{"contraction", refusal, emit};

} // namespace kernels
} // namespace anabranch
