//===- Interleaver.cpp - operations of several runs in turns --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/control/Interleaver.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

void Interleaver::add(llvm::function_ref<void()> emit) {
  Block *block = builder.getInsertionBlock();
  Block::iterator end = builder.getInsertionPoint();
  bool isFirst = end == block->begin();
  Operation *before = isFirst ? nullptr : &*std::prev(end);
  emit();
  assert(builder.getInsertionBlock() == block && "a run is one block");
  runs.emplace_back();
  Block::iterator begin =
      before ? std::next(Block::iterator(before)) : block->begin();
  for (Operation &op : llvm::make_range(begin, builder.getInsertionPoint()))
    runs.back().push_back(&op);
}

void Interleaver::finish() {
  llvm::DenseSet<Operation *> waiting;
  for (const auto &run : runs)
    waiting.insert(run.begin(), run.end());
  auto isReady = [&](Operation *op) {
    bool ready = true;
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands()) {
        Operation *maker = operand.getDefiningOp();
        ready &= !maker || op->isAncestor(maker) || !waiting.contains(maker);
      }
    });
    return ready;
  };
  Block *block = builder.getInsertionBlock();
  Block::iterator end = builder.getInsertionPoint();
  std::vector<size_t> next(runs.size(), 0);
  // The first run waits for no other, so each round moves at least one
  // operation.
  while (!waiting.empty())
    for (auto [run, place] : llvm::zip(runs, next)) {
      if (place == run.size() || !isReady(run[place]))
        continue;
      Operation *op = run[place++];
      op->moveBefore(block, end);
      waiting.erase(op);
    }
  runs.clear();
}

} // namespace kernels
} // namespace anabranch
