//===- SuperCandidates.cpp - launches that may become one command ---------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/superkernel/SuperCandidates.h"

#include "ir/Scope.h"
#include "package/verify/RuntimeOperator.h"
#include "schedule/program/Dependencies.h"
#include "schedule/program/RegionCall.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace anabranch {
namespace schedule {
namespace {

/// The memories that commands use, and the fences that come after them.
class Uses {
public:
  void add(Operation *op) {
    fences.insert(ir::fencesAfter.of(op).begin(), ir::fencesAfter.of(op).end());
    for (Value buffer : writesOf(op))
      written.insert(memoryOf(buffer));
    for (Value buffer : op->getOperands())
      touched.insert(memoryOf(buffer));
  }

  /// Whether the command must stay after these commands.
  bool orders(Operation *op) const {
    return llvm::any_of(
               ir::fencesBefore.of(op),
               [&](int64_t fence) { return fences.contains(fence); }) ||
           llvm::any_of(op->getOperands(),
                        [&](Value buffer) {
                          return written.contains(memoryOf(buffer));
                        }) ||
           llvm::any_of(writesOf(op), [&](Value buffer) {
             return touched.contains(memoryOf(buffer));
           });
  }

private:
  static ValueRange writesOf(Operation *op) {
    if (auto launch = dyn_cast<ir::LaunchOp>(op))
      return launch.getWrites();
    return cast<ir::CopyOp>(op)->getOperands().drop_front();
  }

  DenseSet<int64_t> written, touched, fences;
};

class CandidateFinder {
public:
  CandidateFinder(bool marked, IsEarly isEarly,
                  SmallVectorImpl<SuperCandidate> &candidates)
      : marked(marked), isEarly(isEarly), candidates(candidates) {}

  void visit(Operation *op) {
    ir::SuperAttr scope = ir::superOf(op->getLoc());
    auto launch = dyn_cast<ir::LaunchOp>(op);
    bool named = scope && !scope.getName().empty();
    if (launch && (marked ? named : !scope))
      return addMember(launch, scope);
    std::string reason = refuse(op);
    if (marked && named && !reason.empty())
      return endScope(op, scope, reason);
    auto wait = dyn_cast<ir::WaitOp>(op);
    if (wait && open && isEarly(wait, candidate))
      return pending.push_back(op);
    if (!launch && !isa<ir::CopyOp>(op))
      return close(op);
    if (open)
      pass(op);
  }

  void finish() { close(nullptr); }

private:
  /// Why an operator of a scope is no member. Empty for commands that are no
  /// operator of the user's, such as copies.
  static std::string refuse(Operation *op) {
    if (auto call = dyn_cast<ir::CallOp>(op)) {
      StringRef name = call.getCallee();
      if (name == branchCallee)
        return "torch.cond runs one of two regions";
      if (name == loopCallee)
        return "a loop runs a region";
      if (package::isRuntimeOperator(name))
        return name.str() + " decides a size";
      return (name.contains("::") ? "" : "aten::") + name.str() +
             " runs through PyTorch";
    }
    return "";
  }

  void addMember(ir::LaunchOp launch, ir::SuperAttr scope) {
    if (open && (candidate.scope != scope || later.orders(launch)))
      close(launch);
    if (!open) {
      // The scope was interrupted and goes on here.
      if (scope && interrupted.lookup(scope)) {
        SuperCandidate &before = candidates[interrupted.lookup(scope) - 1];
        before.breaker = interruptions.lookup(scope);
        before.reason = describe(before.breaker);
        before.isOwn = isa<ir::WaitOp, ir::RecordOp>(before.breaker);
      }
      open = true;
      candidate.scope = scope;
    }
    if (scope)
      interrupted.erase(scope);
    candidate.earlier.append(pending);
    pending.clear();
    candidate.members.push_back(launch);
    members.add(launch);
  }

  static std::string describe(Operation *op) {
    if (isa<ir::WaitOp>(op))
      return "a wait for another stream stands between";
    if (isa<ir::RecordOp>(op))
      return "another stream waits for what stands between";
    return "what stands between is outside of the scope";
  }

  void endScope(Operation *op, ir::SuperAttr scope, const std::string &reason) {
    if (!open || candidate.scope != scope) {
      close(op);
      open = true;
      candidate.scope = scope;
    }
    candidate.breaker = op;
    candidate.reason = reason;
    interrupted.erase(scope);
    close(nullptr);
  }

  /// Moves a command that is no member before the members or after them. It
  /// stays in place if no other member follows.
  void pass(Operation *op) {
    if (members.orders(op) || later.orders(op))
      later.add(op);
    else
      pending.push_back(op);
  }

  void close(Operation *breaker) {
    if (!open)
      return;
    if (candidate.scope && breaker && !candidate.members.empty()) {
      interrupted[candidate.scope] = candidates.size() + 1;
      interruptions[candidate.scope] = breaker;
    }
    candidates.push_back(std::move(candidate));
    candidate = SuperCandidate();
    members = later = Uses();
    pending.clear();
    open = false;
  }

  bool marked;
  IsEarly isEarly;
  SmallVectorImpl<SuperCandidate> &candidates;
  SuperCandidate candidate; ///< the one being built
  bool open = false;
  Uses members, later;
  SmallVector<Operation *> pending; ///< since the last member
  /// For each scope that was interrupted: the number of the interrupted
  /// candidate plus one, and the command that interrupted it.
  DenseMap<Attribute, size_t> interrupted;
  DenseMap<Attribute, Operation *> interruptions;
};

} // namespace

void findCandidates(ir::StreamOp stream, bool marked, IsEarly isEarly,
                    SmallVectorImpl<SuperCandidate> &candidates) {
  CandidateFinder finder(marked, isEarly, candidates);
  for (Operation &op : stream.getBody().front())
    finder.visit(&op);
  finder.finish();
}

} // namespace schedule
} // namespace anabranch
