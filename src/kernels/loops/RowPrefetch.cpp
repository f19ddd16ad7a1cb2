//===- RowPrefetch.cpp - the next row on its way early --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/loops/RowPrefetch.h"

#include "kernels/nests/StrideClass.h"
#include "machine/limits/MachineRates.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// Smaller tensors may lie in the second-level cache, half of which is left for
/// them. From there the processor itself prefetches early enough.
static constexpr int64_t largeBytes = machine::UsualCore::l2Bytes / 2;

static bool isLarge(Value tensor) {
  return tensorBytes(tensor).value_or(largeBytes) >= largeBytes;
}

RowPrefetch::RowPrefetch(LoopContext &context, const FusedNests &nests)
    : context(context), nests(nests) {
  bool alongRows = context.group.laneLoop < 0 &&
                   !context.group.sharedLoops.empty() && !nests.inner.empty() &&
                   nests.inner.back().hasLanes;
  if (!alongRows)
    return;
  for (LoopNest *member : nests.members) {
    collect(*member, *member);
    for (LoopNest *temporary : member->fills)
      collect(*member, *temporary);
  }
}

void RowPrefetch::collect(const LoopNest &member, const LoopNest &reader) {
  for (const analysis::Read &read : reader.reads.reads)
    if (auto row = rowRead(member, reader, read))
      rows.push_back(*row);
}

/// The member's loop that belongs to a loop of the temporary which the member
/// fills.
static std::optional<unsigned>
loopOfMember(const LoopNest &member, const LoopNest &reader, unsigned loop) {
  if (&member == &reader)
    return loop;
  for (const analysis::Read &read : member.reads.reads)
    if (read.tensor == reader.value)
      return read.index[loop].plainLoop();
  return std::nullopt;
}

/// Whether nests that run earlier read the tensor too, and none that runs
/// later.
bool RowPrefetch::isLastOfSeveral(const LoopNest &member, Value tensor) const {
  auto isRead = [&](auto isAt) {
    return llvm::any_of(context.group.nests, [&](const LoopNest *nest) {
      return isAt(nest->level) &&
             llvm::any_of(nest->reads.reads, [&](const analysis::Read &read) {
               return read.tensor == tensor;
             });
    });
  };
  return isRead([&](unsigned level) { return level < member.level; }) &&
         !isRead([&](unsigned level) { return level > member.level; });
}

std::optional<RowPrefetch::RowRead>
RowPrefetch::rowRead(const LoopNest &member, const LoopNest &reader,
                     const analysis::Read &read) const {
  auto tensor = dyn_cast<BlockArgument>(read.tensor);
  bool known = llvm::any_of(
      rows, [&](const RowRead &row) { return row.tensor == read.tensor; });
  if (!tensor || known || !isLarge(tensor) || !isLastOfSeveral(member, tensor))
    return std::nullopt;
  unsigned next = context.group.sharedLoops.back().dims.back();
  RowRead row{&member, tensor, {}, 0};
  bool moves = false;
  for (auto [dim, index] : llvm::enumerate(read.index)) {
    auto own = index.plainLoop();
    auto loop = own ? loopOfMember(member, reader, *own) : std::nullopt;
    if (!loop)
      return std::nullopt;
    row.loops.push_back(*loop);
    if (member.loops[*loop].shared != static_cast<int>(next))
      continue;
    row.rowDim = dim;
    moves = true;
  }
  unsigned position =
      llvm::find(nests.members, &member) - nests.members.begin();
  unsigned along = nests.inner.back().loops[position].back();
  bool isRow = llvm::is_contained(row.loops, along);
  for (auto [dim, index] : llvm::enumerate(read.index))
    if (row.loops[dim] == along)
      isRow &= strideClassOf(context.model, read, *index.plainLoop()) ==
               StrideClass::Unit;
  if (!moves || !isRow)
    return std::nullopt;
  return row;
}

void RowPrefetch::emit(const LoopNest &member, ArrayRef<Lanes> point) const {
  LaneBuilder &lanes = context.lanes;
  for (const RowRead &row : rows) {
    if (row.member != &member)
      continue;
    SmallVector<Lanes> index;
    for (unsigned loop : row.loops)
      index.push_back(point[loop]);
    index[row.rowDim] = lanes.add(index[row.rowDim], lanes.indexLanes(1));
    prefetch(lanes, context.function.argument(row.tensor.getArgNumber()),
             index);
  }
}

} // namespace kernels
} // namespace anabranch
