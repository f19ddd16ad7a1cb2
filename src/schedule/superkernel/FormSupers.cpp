//===- FormSupers.cpp - launches become super kernels ---------------------===//
// SPDX-License-Identifier: Apache-2.0
//
//   launch @a ...          in "layer"       super "layer_0" streams 1 {
//   launch @b ...          in "layer"   ->    launch @a ...
//   call "topk" ...        in "layer"         launch @b ...
//   launch @c ...          in "layer"       }
//   launch @d ...          in "layer"       call "topk" ...
//                                           super "layer_1" streams 1 { ... }
//
// The pass takes the commands of a stream in order. A command that cannot be a
// member ends the super kernel. If it depends on no member, it moves before the
// super kernel instead; if no later member depends on it, it moves after. A
// wait for another stream moves before the super kernel if that costs little
// time.

#include "schedule/superkernel/SuperCandidates.h"

#include "ir/Explain.h"
#include "ir/PassBase.h"
#include "ir/Scope.h"
#include "schedule/cost/CostModel.h"
#include "schedule/cost/StreamTimes.h"
#include "schedule/superkernel/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace anabranch {
namespace schedule {
namespace {

/// Launches without a scope become a super kernel if that saves at least this
/// candidate of their time. A smaller gain is less than the effect of another
/// order and other caches.
constexpr double worthwhile = 0.01;

/// Microseconds that two super kernels cost more than one: an idle tail and
/// another start.
constexpr double partingMicroseconds = 5;

class Former {
public:
  Former(ir::ProgramOp program, const SuperOptions &options,
         const machine::MachineRates &machine)
      : program(program), module(program->getParentOfType<ModuleOp>()),
        options(options), machine(machine), times(program, machine),
        b(program.getContext()) {}

  LogicalResult run() {
    SmallVector<SuperCandidate> candidates = candidatesOf(/*marked=*/true);
    for (const SuperCandidate &candidate : candidates)
      if (failed(checkBreak(candidate)))
        return failure();
    for (SuperCandidate &candidate : candidates)
      if (!bypassed.contains(candidate.scope.getName()))
        form(candidate);
    if (options.find)
      for (SuperCandidate &candidate : candidatesOf(/*marked=*/false))
        if (pays(candidate))
          form(candidate);
    for (auto stream : program.getBody().getOps<ir::StreamOp>())
      stream.forEachCommand(ir::dropFences);
    if (!breaks.empty())
      program->setAttr("anabranch.breaks", b.getArrayAttr(breaks));
    return success();
  }

private:
  SmallVector<SuperCandidate> candidatesOf(bool marked) {
    SmallVector<SuperCandidate> candidates;
    for (auto stream : program.getBody().getOps<ir::StreamOp>())
      if (!stream.getInitialize())
        findCandidates(
            stream, marked,
            [&](ir::WaitOp wait, const SuperCandidate &candidate) {
              return isEarly(wait, candidate);
            },
            candidates);
    return candidates;
  }

  /// Whether all members may wait for an event that only some need. They may if
  /// the event comes before the first member begins or soon after, or if the
  /// user demands one super kernel for the scope.
  bool isEarly(ir::WaitOp wait, const SuperCandidate &candidate) const {
    if (candidate.members.empty())
      return false;
    if (candidate.scope && candidate.scope.getStrict() == "abort")
      return true;
    return times.recorded(wait.getEvent()) -
               times.begin(candidate.members.front()) <=
           partingMicroseconds;
  }

  /// Reports the command that interrupts a scope, or is in the scope and is no
  /// member.
  LogicalResult checkBreak(const SuperCandidate &candidate) {
    if (!candidate.breaker)
      return success();
    StringRef name = candidate.scope.getName(),
              strict = candidate.scope.getStrict();
    if (strict == "abort" && candidate.isOwn) {
      return candidate.breaker->emitError()
             << "super_kernel(\"" << name
             << "\"): the option strict-scope-check=abort asks for one super "
                "kernel, but "
             << candidate.reason;
    }
    bool bypass = strict == "bypass" && candidate.isOwn;
    if (bypass)
      bypassed.insert(name);
    ir::explainRefusal(
        candidate.breaker->getLoc(),
        ((bypass ? "a super kernel '" : "one super kernel '") + name + "'")
            .str(),
        candidate.reason);
    breaks.push_back(b.getDictionaryAttr(
        {b.getNamedAttr("scope", b.getStringAttr(name)),
         b.getNamedAttr("bypassed", b.getBoolAttr(bypass)),
         b.getNamedAttr("reason", b.getStringAttr(candidate.reason)),
         b.getNamedAttr("location", b.getStringAttr(ir::describeLocation(
                                        candidate.breaker->getLoc())))}));
    return success();
  }

  /// Whether launches without a scope gain by becoming a super kernel.
  bool pays(const SuperCandidate &candidate) {
    if (machine.workers < 2 || candidate.members.size() < 2)
      return false;
    double sum = 0, saved = 0;
    for (ir::LaunchOp member : candidate.members) {
      Cost cost = costOf(member, module, machine);
      sum += cost.split;
      saved += cost.ending;
    }
    if (saved >= worthwhile * sum)
      return true;
    ir::explainRefusal(
        candidate.members.front()->getLoc(), "super kernel",
        llvm::formatv("it would save {0:f1} of the {1:f0} us of its {2} "
                      "launches",
                      saved, sum, candidate.members.size())
            .str());
    return false;
  }

  void form(SuperCandidate &candidate) {
    if (candidate.members.size() < 2)
      return;
    Operation *front = candidate.members.front();
    for (Operation *op : candidate.earlier)
      op->moveBefore(front);
    StringRef scope = candidate.scope ? candidate.scope.getName() : "auto";
    std::string name = (scope + "_" + Twine(numbers[scope]++)).str();
    SmallVector<Location> locations;
    llvm::StringSet<> tags; // of the members' streams
    for (ir::LaunchOp member : candidate.members) {
      locations.push_back(member.getLoc());
      auto stream =
          member->getAttrOfType<StringAttr>("anabranch.member_stream");
      tags.insert(stream ? stream.getValue() : "");
    }
    b.setInsertionPoint(front);
    auto super = b.create<ir::SuperOp>(
        FusedLoc::get(b.getContext(), locations), b.getStringAttr(name),
        b.getI64IntegerAttr(tags.size()), ordersOf(candidate.members));
    Block &body = super.getBody().emplaceBlock();
    for (ir::LaunchOp member : candidate.members) {
      // Tiles of the member wait for the bytes that they read. So the kernel
      // must have a footprint function.
      if (Operation *kernel = module.lookupSymbol(member.getKernel()))
        kernel->setAttr("anabranch.footprint", b.getUnitAttr());
      member->removeAttr("anabranch.member_stream");
      member->moveBefore(&body, body.end());
    }
  }

  /// The order that fences give the members; null if there is none.
  ArrayAttr ordersOf(ArrayRef<ir::LaunchOp> members) {
    llvm::MapVector<int64_t, std::array<SmallVector<int64_t>, 2>> fences;
    for (auto [number, member] : llvm::enumerate(members)) {
      for (int64_t fence : ir::fencesAfter.of(member))
        fences[fence][0].push_back(number);
      for (int64_t fence : ir::fencesBefore.of(member))
        fences[fence][1].push_back(number);
    }
    SmallVector<Attribute> orders;
    for (const auto &[fence, sides] : fences)
      if (!sides[0].empty() && !sides[1].empty())
        orders.push_back(
            ir::OrderAttr::get(b.getContext(), sides[0], sides[1]));
    return orders.empty() ? ArrayAttr() : b.getArrayAttr(orders);
  }

  ir::ProgramOp program;
  ModuleOp module;
  SuperOptions options;
  const machine::MachineRates &machine;
  const StreamTimes times; ///< of the streams before this pass changed them
  OpBuilder b;
  llvm::StringMap<int> numbers; ///< of the next super kernel of each scope
  llvm::StringSet<> bypassed;
  SmallVector<Attribute> breaks;
};

struct FormSupersPass : ir::PassBase<FormSupersPass, ModuleOp> {
  static constexpr StringLiteral argument = "anabranch-form-supers";
  static constexpr StringLiteral description =
      "makes super kernels of launches";

  FormSupersPass(const SuperOptions &options,
                 const machine::MachineRates &model)
      : machine(model) {
    find = options.find;
    if (model.workers > 1)
      workers = model.workers;
  }
  FormSupersPass(const FormSupersPass &other)
      : PassBase(other), machine(other.machine) {
    copyOptionValuesFrom(&other);
  }

  void runOnOperation() override {
    machine.workers = workers;
    for (auto program : getOperation().getOps<ir::ProgramOp>())
      if (failed(Former(program, SuperOptions{find}, machine).run()))
        return signalPassFailure();
  }

  machine::MachineRates machine;
  Option<bool> find{*this, "find", llvm::cl::desc("also what is not marked")};
  Option<int> workers{*this, "workers", llvm::cl::desc("threads of a call"),
                      llvm::cl::init(1)};
};

} // namespace
} // namespace schedule

std::unique_ptr<Pass>
createFormSupersPass(const SuperOptions &options,
                     const machine::MachineRates &machine) {
  return std::make_unique<schedule::FormSupersPass>(options, machine);
}

} // namespace anabranch
