//===- GroupFuser.cpp - merges groups as far as it pays -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/fusion/GroupFuser.h"

#include "ir/Explain.h"
#include "mlir/IR/TypeUtilities.h"
#include "schedule/fusion/MergeGroups.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

bool GroupFuser::merge(int producer, int consumer, const Node &at) {
  Merge attempt(grouping, producer, consumer);
  if (attempt.check()) {
    attempt.commit();
    return true;
  }
  if (ir::isExplaining(at.op->getContext()))
    refusals.push_back({at.op->getLoc(), attempt.reason()});
  return false;
}

void GroupFuser::explain() const {
  for (const Refusal &refusal : refusals)
    ir::explainRefusal(refusal.at, "fused", refusal.why);
}

/// The bits of the widest element that a group reads of another one.
unsigned GroupFuser::bitsRead(const FusionGroup &reader, int producer) const {
  unsigned most = 0;
  for (int index : reader.nodes)
    for (const analysis::DimRead &read : nodes[index].reads) {
      int from = grouping.producerOf(read.value);
      Type element = getElementTypeOrSelf(read.value.getType());
      if (from >= 0 && nodes[from].group == producer && element.isIntOrFloat())
        most = std::max(most, element.getIntOrFloatBitWidth());
    }
  return most;
}

/// A kernel has one product at most. Of several products, the reader joins that
/// of the widest elements, and reads those of the others from memory.
void GroupFuser::preferWideProducts(const FusionGroup &reader,
                                    MutableArrayRef<int> candidates) const {
  SmallVector<size_t> places;
  SmallVector<int> products;
  for (auto [place, candidate] : llvm::enumerate(candidates))
    if (groups[candidate].kind == OpKind::Contraction) {
      places.push_back(place);
      products.push_back(candidate);
    }
  llvm::sort(products, [&](int a, int b) {
    return std::pair(bitsRead(reader, a), groups[a].nodes.back()) >
           std::pair(bitsRead(reader, b), groups[b].nodes.back());
  });
  for (auto [place, product] : llvm::zip(places, products))
    candidates[place] = product;
}

void GroupFuser::mergeWithProducers(int index) {
  SmallVector<int> candidates =
      grouping.producersOf(groups[nodes[index].group]);
  // Candidates are tried from the latest producer on. Its result is still in
  // the cache, and no path leads from it through another candidate.
  llvm::sort(candidates, [&](int a, int b) {
    return groups[a].nodes.back() > groups[b].nodes.back();
  });
  preferWideProducts(groups[nodes[index].group], candidates);
  for (int candidate : candidates)
    if (candidate != nodes[index].group && groups[candidate].alive &&
        groups[candidate].kind != OpKind::Fallback &&
        groups[candidate].kind != OpKind::Fence)
      merge(candidate, nodes[index].group, nodes[index]);
}

/// Fuses pointwise work into its only reader, if that is a matrix product, an
/// attention, a scatter, a scan or an insertion. The reader evaluates the work
/// where it reads.
bool GroupFuser::absorb(int producer) {
  const FusionGroup &group = groups[producer];
  if (!group.alive || !group.isLoops() || group.hasRows)
    return false;
  int reader = -1;
  for (int index : group.nodes)
    for (int user : nodes[index].users) {
      int other = user < 0 ? -1 : nodes[user].group;
      if (other == producer)
        continue;
      if (other < 0 || (reader >= 0 && other != reader))
        return false;
      reader = other;
    }
  if (reader < 0 || groups[reader].isLoops() ||
      groups[reader].kind == OpKind::Fallback ||
      groups[reader].kind == OpKind::Fence)
    return false;
  return merge(producer, reader, nodes[group.nodes.front()]);
}

/// Fuses gathers into products and attention, before another kernel would copy
/// the gathered parts. The reader then reads them in place.
void GroupFuser::absorbGathers() {
  for (int i = 0, e = nodes.size(); i < e; ++i)
    for (const analysis::Gather &gather : gathersInPlace(nodes[i])) {
      int made = grouping.producerOf(gather.op->getResult(0));
      if (made >= 0 && nodes[made].users.size() == 1)
        absorb(nodes[made].group);
    }
}

void GroupFuser::absorbProducers() {
  // From last to first, so that a chain is absorbed as a whole.
  for (int i = groups.size(); i-- > 0;)
    absorb(i);
}

void GroupFuser::run() {
  absorbGathers();
  for (int i = 0, e = nodes.size(); i < e; ++i)
    if (nodes[i].kind == OpKind::Pointwise ||
        nodes[i].kind == OpKind::Reduction || nodes[i].kind == OpKind::Insert)
      mergeWithProducers(i);
  absorbProducers();
}

} // namespace schedule
} // namespace anabranch
