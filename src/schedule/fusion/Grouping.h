//===- Grouping.h - which operators share a kernel --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Groups start as single operators and are merged along their edges. A group's
// loops are named by axes: two operators share an axis if one reads the other's
// value along it. Two groups may merge if their reductions agree on the axes
// that they keep (the shared dimensions), and if all stored values contain
// these axes.
//
// One object analyses one block. It is not thread-safe.

#ifndef ANABRANCH_SCHEDULE_FUSION_GROUPING_H
#define ANABRANCH_SCHEDULE_FUSION_GROUPING_H

#include "analysis/Gather.h"
#include "analysis/IterationSpace.h"
#include "ir/Scope.h"
#include "schedule/fusion/OpKinds.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include <vector>

namespace anabranch {
namespace schedule {

/// Axes of a group, sorted.
using AxisSet = llvm::SmallVector<int, 6>;

/// An operator that is stored or fused, never recomputed by its readers.
struct Node {
  mlir::Operation *op = nullptr;
  OpKind kind = OpKind::Pointwise;
  int group = -1;
  bool expensive = false; ///< itself, or a value it reads at its point
  bool readsTaps = false; ///< of a padded tensor (PaddedTaps.h)
  bool grows = false;     ///< makes many more bytes than it reads
  ir::ScopeAttr scope;    ///< null: the default stream
  int fence = -1;         ///< the node of the last one before it; -1: none
  llvm::SmallVector<int> before; ///< nodes that come first, unread
  analysis::IterationSpace loops;
  llvm::SmallVector<analysis::DimRead> reads;
  llvm::SmallVector<int> users; ///< nodes; -1: the return
  llvm::SmallVector<int> axes;  ///< the group's axis of each loop
};

/// The operators that fusion puts into one kernel.
struct FusionGroup {
  OpKind kind = OpKind::Pointwise; ///< Pointwise and Reduction: "loops"
  bool alive = true;
  bool constant = false; ///< depends on steady values only: for `initialize`
  llvm::SmallVector<int> nodes; ///< in program order
  int axisCount = 0;
  llvm::SmallVector<int64_t> axisSizes;
  bool hasRows = false;
  AxisSet rows; ///< the axes that every reduction keeps
  int64_t cost = 0;

  bool isLoops() const {
    return kind == OpKind::Pointwise || kind == OpKind::Reduction;
  }
};

/// The gathers that make operands of a product or an attention, if its kernel
/// can read them in place.
llvm::SmallVector<analysis::Gather> gathersInPlace(const Node &reader);

class Grouping {
public:
  using Operators = llvm::DenseSet<mlir::Operation *>;

  /// Operators in `ofCalls` run in calls, also if they read steady values only.
  Grouping(mlir::func::FuncOp main, Operators ofCalls);

  /// The operators whose results load would keep, though they are much larger
  /// than what they are computed from. Known when groups are merged: a merged
  /// group keeps what it stores and nothing else.
  Operators tooLargeToKeep() const;

  const Node &node(int index) const { return nodes[index]; }
  /// The groups in an order in which they can run. Calls of PyTorch are groups
  /// too.
  std::vector<const FusionGroup *> order() const;
  /// The node that makes this value, or -1.
  int producerOf(mlir::Value value) const;
  /// True if the operator is copied into each group that reads it.
  bool isCloned(mlir::Operation *op) const;
  /// True if an operator outside the group, or the caller, reads this node's
  /// results.
  bool isStored(const FusionGroup &group, const Node &node) const;

private:
  friend class GroupFuser;
  friend class Merge;

  void findStoredViews(mlir::Operation *reader);
  void addNode(mlir::Operation *op, OpKind kind);
  void linkUsers(mlir::Operation *terminator);
  void orderNodes();
  void orderIgnored();
  void orderCalls();
  void orderOverwrites();
  void seedGroup(int index);
  bool isConstant(mlir::Value value) const;
  bool dependsOnConstantsOnly(const Node &node) const;
  bool keepsTooMuch(const FusionGroup &group) const;
  /// The groups that must run before this one.
  llvm::SmallVector<int> producersOf(const FusionGroup &group) const;
  /// True if `to` needs `from` through some third group.
  bool reachesIndirectly(int from, int to) const;

  Operators ofCalls;
  std::vector<Node> nodes;
  std::vector<FusionGroup> groups;
  llvm::DenseMap<mlir::Operation *, OpKind> kinds;
  llvm::DenseMap<mlir::Operation *, int> nodeOf;
  llvm::DenseSet<mlir::Operation *> storedViews;
  mutable std::vector<int> visited; ///< the last query that saw a group
  mutable int query = 0;
};

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_FUSION_GROUPING_H
