//===- MergeGroups.h - may two groups become one kernel ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_FUSION_MERGEGROUPS_H
#define ANABRANCH_SCHEDULE_FUSION_MERGEGROUPS_H

#include "schedule/fusion/Grouping.h"
#include <string>

namespace anabranch {
namespace schedule {

/// One attempt to merge a consumer into its producer's group. `check` changes
/// nothing; `commit` may follow if it succeeded.
class Merge {
public:
  Merge(Grouping &grouping, int producer, int consumer)
      : grouping(grouping), producer(producer), consumer(consumer),
        a(grouping.groups[producer]), b(grouping.groups[consumer]) {}

  bool check();
  void commit();
  const std::string &reason() const { return why; }

private:
  bool refuse(const llvm::Twine &reason);
  bool checkOrder();
  bool checkKinds();
  bool checkBlocks();
  bool checkTaps();
  bool checkSizes();
  int64_t evaluations() const;
  bool checkPrologue();
  bool isPlacedGather() const;
  bool checkEpilogue();
  bool unifyAxes();
  bool link(int consumerAxis, int producerAxis);
  void nameRemainingAxes();
  bool mergeRows();
  bool checkStores();
  bool checkRowReads();
  bool checkRecomputation();
  bool checkParallelism();

  bool isInside(int group) const {
    return group == producer || group == consumer;
  }
  bool isStored(const Node &node) const;
  /// The merged group's axis for an axis of the node's own group.
  int axisOf(const Node &node, int axis) const {
    return node.group == consumer ? toMerged[axis] : axis;
  }
  int64_t sizeOf(int mergedAxis) const { return axisSizes[mergedAxis]; }
  /// The node's axes without those of size one.
  AxisSet largeAxes(const Node &node) const;
  void forEachNode(llvm::function_ref<void(const Node &)> visit) const;
  void forEachReadOfProducer(
      llvm::function_ref<void(const Node &reader, const analysis::DimRead &read,
                              const Node &made)>
          visit) const;

  Grouping &grouping;
  int producer, consumer;
  FusionGroup &a, &b;
  std::string why;

  llvm::SmallVector<int> toMerged; ///< b's axis -> merged axis
  llvm::SmallVector<int64_t> axisSizes;
  bool hasRows = false;
  AxisSet rows;
};

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_FUSION_MERGEGROUPS_H
