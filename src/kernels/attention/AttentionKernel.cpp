//===- AttentionKernel.cpp - the plans of attention -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention/AttentionKernel.h"

#include "kernels/attention/AttentionEmitter.h"
#include "kernels/attention/AttentionFootprint.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

std::optional<std::string> refuseAttention(ir::AttentionOp op) {
  auto query = cast<RankedTensorType>(op.getQuery().getType());
  auto key = cast<RankedTensorType>(op.getKey().getType());
  auto value = cast<RankedTensorType>(op.getValue().getType());
  int64_t rank = query.getRank();
  if (rank < 2 || key.getRank() != rank || value.getRank() != rank)
    return "the operands differ in rank";
  if (query.isDynamicDim(rank - 1) || value.isDynamicDim(rank - 1))
    return "a head's size is symbolic";
  if (query.getDimSize(rank - 1) > 2048 || value.getDimSize(rank - 1) > 2048)
    return "a head is larger than the cache";
  if (op.getGrouped() && rank < 3)
    return "it has no heads to group";
  if (op.getMask() &&
      cast<RankedTensorType>(op.getMask().getType()).getRank() > rank)
    return "the mask has more dimensions than the scores";
  return std::nullopt;
}

/// The kernel's attention. Null, and why, if it has none or several.
static ir::AttentionOp findAttention(func::FuncOp kernel, std::string &why) {
  ir::AttentionOp found;
  for (Operation &op : kernel.front()) {
    auto attention = dyn_cast<ir::AttentionOp>(op);
    auto generic = dyn_cast<linalg::GenericOp>(op);
    if ((attention && found) || isa<ir::ScanOp, ir::ScatterOp>(op) ||
        (generic && generic.getNumReductionLoops())) {
      why = "it has another operator with loops of its own";
      return nullptr;
    }
    if (attention)
      found = attention;
  }
  if (!found)
    why = "it has no attention";
  return found;
}

namespace {

class AttentionPlan : public Plan {
public:
  AttentionPlan(ir::AttentionOp op, SmallVector<Epilogue, 1> epilogues,
                const AttentionBlocking &blocking, double cycles)
      : op(op), epilogues(std::move(epilogues)), blocking(blocking),
        cycles(cycles) {}

  double cost() const override { return cycles; }

  KernelShell::Grid grid(KernelFunction &function) const override {
    AttentionContext attention(op, blocking, function);
    return {attention.tileCount(), AttentionEmitter(attention).scratchBytes()};
  }

  void emitTile(KernelShell::TileBody &body) const override {
    AttentionContext attention(op, blocking, body.function);
    AttentionEmitter(attention).emitTile(body.evaluator, epilogues,
                                         body.scratch, body.tile);
  }

  void emitFootprint(KernelShell::FootprintBody &body) const override {
    AttentionContext attention(op, blocking, body.function);
    TileFootprint footprint(body.function);
    addAttentionFootprint(attention, footprint, epilogues, body.tile);
    footprint.store(body.footprints);
  }

private:
  ir::AttentionOp op;
  SmallVector<Epilogue, 1> epilogues;
  AttentionBlocking blocking;
  double cycles;
};

template <AttentionBlocking::Way way>
Proposal propose(func::FuncOp kernel, const native::TargetInfo &target) {
  std::string why;
  ir::AttentionOp op = findAttention(kernel, why);
  if (!op)
    return Proposal::refuse(why);
  if (auto reason = refuseAttention(op))
    return Proposal::refuse(*reason);
  auto epilogues = findEpilogues(kernel, op.getResult());
  if (!epilogues)
    return Proposal::refuse(
        "a result is no pointwise function of the attention's");
  auto blocking = AttentionBlocking::choose(op, target, way, why);
  if (!blocking)
    return Proposal::refuse(why);
  return {std::make_unique<AttentionPlan>(op, std::move(*epilogues), *blocking,
                                          blocking->cycles(op, target)),
          {}};
}

} // namespace

const PlanRow streamedAttentionRow{"streamed_attention",
                                   propose<AttentionBlocking::Way::Streamed>};
const PlanRow tileAttentionRow{"tile_attention",
                               propose<AttentionBlocking::Way::Tiles>};
const PlanRow packedAttentionRow{"packed_attention",
                                 propose<AttentionBlocking::Way::Packed>};

} // namespace kernels
} // namespace anabranch
