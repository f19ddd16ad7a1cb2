//===- SharedLoops.cpp - loops that all nests of a group share ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/nests/SharedLoops.h"

#include "kernels/emit/KernelFunction.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

namespace {

/// Sets of loops of different nests. Each set may become one shared dimension.
class LoopSets {
public:
  explicit LoopSets(KernelModel &model) : model(model) {
    for (auto &nest : model.nests) {
      first[nest.get()] = parent.size();
      for (LoopNest::Loop &loop : nest->loops) {
        valid.push_back(loop.parallel);
        parent.push_back(parent.size());
        owner.push_back({nest.get(), parent.size() - 1 - first[nest.get()]});
      }
    }
    for (auto &nest : model.nests)
      linkReads(*nest);
  }

  unsigned id(const LoopNest *nest, unsigned loop) {
    return first[nest] + loop;
  }
  unsigned root(unsigned i) {
    while (parent[i] != i)
      i = parent[i] = parent[parent[i]];
    return i;
  }
  void unite(unsigned a, unsigned b) {
    a = root(a), b = root(b);
    valid[b] = valid[a] && valid[b];
    parent[a] = b;
  }

  /// The members of the set, if it has exactly one loop of each nest and all
  /// have the same size.
  std::optional<SmallVector<std::pair<LoopNest *, unsigned>>>
  sharedBy(unsigned set, ArrayRef<LoopNest *> nests) {
    SmallVector<std::pair<LoopNest *, unsigned>> members;
    if (!valid[set])
      return std::nullopt;
    for (unsigned i = 0; i < parent.size(); ++i)
      if (root(i) == set)
        members.push_back(owner[i]);
    llvm::SmallDenseSet<LoopNest *> seen;
    for (auto [nest, loop] : members)
      if (!seen.insert(nest).second ||
          !model.sizes->equal(nest->loops[loop].size,
                              members[0].first->loops[members[0].second].size))
        return std::nullopt;
    if (seen.size() != nests.size())
      return std::nullopt;
    return members;
  }

private:
  KernelModel &model;
  llvm::DenseMap<const LoopNest *, unsigned> first;
  std::vector<unsigned> parent;
  std::vector<bool> valid;
  std::vector<std::pair<LoopNest *, unsigned>> owner;

  void linkReads(LoopNest &nest) {
    for (analysis::Read &read : nest.reads.reads) {
      LoopNest *maker = model.nestOf(read.tensor);
      if (!maker)
        continue;
      for (auto [dim, index] : llvm::enumerate(read.index)) {
        if (dim >= maker->resultLoops.size())
          break;
        unsigned made = id(maker, maker->resultLoops[dim]);
        if (auto loop = index.plainLoop())
          unite(id(&nest, *loop), made);
        else
          valid[root(made)] = false;
      }
    }
  }
};

} // namespace

/// Groups of nests that read each other, each in order of level.
static std::vector<SmallVector<LoopNest *>> connected(KernelModel &model) {
  llvm::EquivalenceClasses<LoopNest *> sets;
  for (auto &nest : model.nests) {
    sets.insert(nest.get());
    for (analysis::Read &read : nest->reads.reads)
      if (LoopNest *maker = model.nestOf(read.tensor))
        sets.unionSets(nest.get(), maker);
  }
  llvm::MapVector<LoopNest *, SmallVector<LoopNest *>> groups;
  for (auto &nest : model.nests)
    groups[sets.getLeaderValue(nest.get())].push_back(nest.get());
  std::vector<SmallVector<LoopNest *>> result;
  for (auto &[leader, nests] : groups)
    result.push_back(nests);
  return result;
}

static bool sameLoops(KernelModel &model, const LoopNest &a,
                      const LoopNest &b) {
  if (a.loops.size() != b.loops.size())
    return false;
  for (auto [left, right] : llvm::zip(a.loops, b.loops))
    if (left.parallel != right.parallel ||
        !model.sizes->equal(left.size, right.size))
      return false;
  return true;
}

/// A pair of nests, one of each group, with the same loops. The groups can join
/// through it; none if there is no such pair.
static std::optional<std::pair<LoopNest *, LoopNest *>>
meeting(KernelModel &model, ArrayRef<LoopNest *> a, ArrayRef<LoopNest *> b) {
  for (LoopNest *left : a)
    for (LoopNest *right : b)
      if (!left->loops.empty() && left->kind != LoopNest::Kind::Scatter &&
          sameLoops(model, *left, *right))
        return std::make_pair(left, right);
  return std::nullopt;
}

static bool hasShared(LoopSets &sets, ArrayRef<LoopNest *> nests) {
  LoopNest *nest = nests.front();
  for (unsigned i = 0; i < nest->loops.size(); ++i)
    if (sets.sharedBy(sets.root(sets.id(nest, i)), nests))
      return true;
  return false;
}

/// Joins groups with the same loops, so that common operands are read once.
static void joinGroups(KernelModel &model, LoopSets &sets,
                       std::vector<SmallVector<LoopNest *>> &groups) {
  for (size_t i = 0; i < groups.size(); ++i)
    for (size_t j = i + 1; j < groups.size();) {
      auto pair = meeting(model, groups[i], groups[j]);
      if (!pair || !hasShared(sets, groups[i]) || !hasShared(sets, groups[j])) {
        ++j;
        continue;
      }
      for (unsigned loop = 0; loop < pair->first->loops.size(); ++loop)
        sets.unite(sets.id(pair->first, loop), sets.id(pair->second, loop));
      groups[i].append(groups[j]);
      llvm::sort(groups[i],
                 [](LoopNest *a, LoopNest *b) { return a->level < b->level; });
      groups.erase(groups.begin() + j);
    }
}

static bool overwrites(KernelModel &model, LoopNest *nest, Value tensor) {
  auto argument = dyn_cast<BlockArgument>(tensor);
  return argument && llvm::any_of(nest->destinations, [&](Destination &target) {
           return inPlaceArgument(model.source, target.result) ==
                  argument.getArgNumber();
         });
}

/// Tiles of different groups run in any order. So a nest that overwrites an
/// argument joins the groups that read it.
static void joinOverwritten(KernelModel &model,
                            std::vector<SmallVector<LoopNest *>> &groups) {
  auto clash = [&](ArrayRef<LoopNest *> readers, ArrayRef<LoopNest *> writers) {
    return llvm::any_of(readers, [&](LoopNest *reader) {
      return llvm::any_of(reader->reads.reads, [&](analysis::Read &read) {
        return llvm::any_of(writers, [&](LoopNest *writer) {
          return overwrites(model, writer, read.tensor);
        });
      });
    });
  };
  for (size_t i = 0; i < groups.size(); ++i)
    for (size_t j = i + 1; j < groups.size();) {
      if (!clash(groups[i], groups[j]) && !clash(groups[j], groups[i])) {
        ++j;
        continue;
      }
      groups[i].append(groups[j]);
      llvm::sort(groups[i],
                 [](LoopNest *a, LoopNest *b) { return a->level < b->level; });
      groups.erase(groups.begin() + j);
      j = i + 1; // the larger group may clash with earlier ones
    }
}

static void findShared(KernelModel &model, LoopSets &sets, NestGroup &group) {
  // The nest with the most loops gives the order; of several, one that writes.
  LoopNest *main = group.nests.front();
  for (LoopNest *nest : group.nests)
    if (nest->loops.size() > main->loops.size() ||
        (nest->loops.size() == main->loops.size() &&
         nest->kind == LoopNest::Kind::Write))
      main = nest;
  for (unsigned i = 0; i < main->loops.size(); ++i) {
    auto members = sets.sharedBy(sets.root(sets.id(main, i)), group.nests);
    if (!members)
      continue;
    for (auto [nest, loop] : *members)
      nest->loops[loop].shared = group.sharedCount;
    group.sharedSizes.push_back(main->loops[i].size);
    // A dimension of one element is an index of zero, not a loop.
    if (model.sizes->known(main->loops[i].size) != 1)
      group.sharedLoops.push_back({{group.sharedCount}});
    ++group.sharedCount;
  }
}

static bool canJoinShared(KernelModel &model, NestGroup &group,
                          const SharedLoop &outer, const SharedLoop &inner) {
  return llvm::all_of(group.nests, [&](LoopNest *nest) {
    return canJoin(model, *nest, *nest->loopOfShared(outer.dims.back()),
                   *nest->loopOfShared(inner.dims.front()));
  });
}

static void joinShared(KernelModel &model, NestGroup &group) {
  for (size_t i = group.sharedLoops.size(); i-- > 1;) {
    SharedLoop &outer = group.sharedLoops[i - 1], &inner = group.sharedLoops[i];
    if (!canJoinShared(model, group, outer, inner))
      continue;
    outer.dims.append(inner.dims);
    group.sharedLoops.erase(group.sharedLoops.begin() + i);
  }
}

void formGroups(KernelModel &model) {
  LoopSets sets(model);
  std::vector<SmallVector<LoopNest *>> groups = connected(model);
  joinGroups(model, sets, groups);
  joinOverwritten(model, groups);
  for (SmallVector<LoopNest *> &nests : groups) {
    NestGroup group;
    group.nests = nests;
    findShared(model, sets, group);
    joinShared(model, group);
    model.groups.push_back(std::move(group));
  }
}

//===----------------------------------------------------------------------===//
// Joining loops
//===----------------------------------------------------------------------===//

/// Whether dimension `inner` of the tensor follows `inner - 1` without a gap,
/// and the loop runs over all of it.
static bool isDense(const KernelModel &model, Value tensor, int64_t inner,
                    analysis::DimOf loop) {
  if (!model.sizes->equal({tensor, inner}, loop))
    return false;
  auto argument = dyn_cast<BlockArgument>(tensor);
  if (!argument)
    return true;
  auto strides = argumentStrides(model.source, argument.getArgNumber());
  if (!strides)
    return true;
  auto size = model.sizes->known({tensor, inner});
  return size && strides[inner - 1] == strides[inner] * *size;
}

static bool canJoinRead(const KernelModel &model, const LoopNest &nest,
                        const analysis::Read &read, unsigned outer,
                        unsigned inner) {
  for (auto [dim, index] : llvm::enumerate(read.index)) {
    if (!index.loops.test(outer) && !index.loops.test(inner))
      continue;
    if (index.plainLoop() == outer && dim + 1 < read.index.size() &&
        read.index[dim + 1].plainLoop() == inner &&
        isDense(model, read.tensor, dim + 1, nest.loops[inner].size))
      continue;
    if (index.plainLoop() == inner && dim > 0 &&
        read.index[dim - 1].plainLoop() == outer)
      continue;
    return false;
  }
  return true;
}

bool canJoin(const KernelModel &model, const LoopNest &nest, unsigned outer,
             unsigned inner) {
  if (nest.loops[outer].parallel != nest.loops[inner].parallel)
    return false;
  bool hasOrder =
      nest.kind == LoopNest::Kind::Scan || nest.kind == LoopNest::Kind::Scatter;
  if (hasOrder && (!nest.loops[outer].parallel || !nest.loops[inner].parallel))
    return false;
  if (nest.reads.numbered.test(outer) || nest.reads.numbered.test(inner))
    return false;
  for (const analysis::Read &read : nest.reads.reads)
    if (!canJoinRead(model, nest, read, outer, inner))
      return false;
  if (!nest.loops[outer].parallel)
    return true;
  // The loops of a written value are its dimensions.
  const unsigned *first = llvm::find(nest.resultLoops, outer);
  bool adjacent = first != nest.resultLoops.end() &&
                  first + 1 != nest.resultLoops.end() && *(first + 1) == inner;
  if (!adjacent)
    return false;
  int64_t dimension = first + 1 - nest.resultLoops.begin();
  return llvm::all_of(nest.destinations, [&](const Destination &destination) {
    return isContiguousAcross(model.source, destination, dimension);
  });
}

} // namespace kernels
} // namespace anabranch
