//===- GroupFuser.h - merges groups as far as it pays -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_FUSION_GROUPFUSER_H
#define ANABRANCH_SCHEDULE_FUSION_GROUPFUSER_H

#include "schedule/fusion/Grouping.h"

namespace anabranch {
namespace schedule {

/// Decides which groups to try to merge, and in which order. Merge decides
/// whether two groups may become one.
class GroupFuser {
public:
  explicit GroupFuser(Grouping &grouping)
      : grouping(grouping), nodes(grouping.nodes), groups(grouping.groups) {}

  void run();
  /// Explains why groups were not merged.
  void explain() const;

private:
  struct Refusal {
    mlir::Location at;
    std::string why;
  };

  /// Tries to merge the two groups. A refusal is one of the operator `at`.
  bool merge(int producer, int consumer, const Node &at);
  unsigned bitsRead(const FusionGroup &reader, int producer) const;
  void preferWideProducts(const FusionGroup &reader,
                          mlir::MutableArrayRef<int> candidates) const;
  void mergeWithProducers(int index);
  void absorbGathers();
  void absorbProducers();
  bool absorb(int producer);

  Grouping &grouping;
  const std::vector<Node> &nodes;
  const std::vector<FusionGroup> &groups;
  std::vector<Refusal> refusals; ///< if anybody reads them
};

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_FUSION_GROUPFUSER_H
