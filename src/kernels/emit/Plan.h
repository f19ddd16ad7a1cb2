//===- Plan.h - one way to make a kernel ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A row of the list in Plans.cpp proposes a plan for a kernel on a target, or
// says why it makes none. The cheapest plan makes the kernel. Plans may round
// differently, but a kernel gives the same bits in every call and with every
// number of workers.

#ifndef ANABRANCH_KERNELS_EMIT_PLAN_H
#define ANABRANCH_KERNELS_EMIT_PLAN_H

#include "kernels/emit/KernelShell.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace anabranch {
namespace kernels {

/// Parameters that a plan can be given, as text, and the cycles that its model
/// then estimates. Empty text: the plan's own choice.
struct PlanCandidate {
  std::string parameters;
  double cycles;
};

/// The decision how a kernel is made. It refers to the kernel's function and to
/// the target.
class Plan {
public:
  virtual ~Plan() = default;

  /// Estimated cycles of one core for all tiles, from the rates of the target's
  /// model. A size that is not known counts as ir::typicalSize. Pointwise work
  /// on the plan's operands and results costs all plans the same, and is left
  /// out.
  virtual double cost() const = 0;
  /// Parameters that are worth timing, in any order; none if the plan has no
  /// model.
  virtual std::vector<PlanCandidate> candidates() const { return {}; }

  /// Called once, before the bodies are written. May rewrite the kernel.
  virtual mlir::LogicalResult prepare() { return mlir::success(); }
  /// The number of tiles, and the scratch memory of each worker.
  virtual KernelShell::Grid grid(KernelFunction &function) const = 0;
  virtual void emitTile(KernelShell::TileBody &body) const = 0;
  /// Which bytes a tile may touch. A bound that is too small is a race.
  virtual void emitFootprint(KernelShell::FootprintBody &body) const = 0;
  /// Whether tiles share something that `emitSetup` computes before them.
  virtual bool hasSetup() const { return false; }
  virtual void emitSetup(KernelShell::TileBody &) const {}
};

/// A plan, or the reason why there is none.
struct Proposal {
  std::unique_ptr<Plan> plan;
  std::string refusal;

  /// For example "it has 12 rows; more than 8 are cheaper in blocks".
  static Proposal refuse(std::string reason) {
    return {nullptr, std::move(reason)};
  }
};

/// A row of the list of plans.
struct PlanRow {
  llvm::StringLiteral name;
  Proposal (*propose)(mlir::func::FuncOp kernel,
                      const native::TargetInfo &target);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_EMIT_PLAN_H
