//===- PlanMemory.cpp - places of buffers in the arena --------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// One arena per call. Buffers of known size come first: the largest is placed
// first, each at the lowest offset that is free while it lives. Buffers of
// symbolic size follow as regions that several share in turn; their offsets are
// computed with the other sizes. Persistent buffers never share.
//
// In a super kernel a tile that overwrites bytes waits for the tiles that read
// them. So its buffers share bytes only where they would take too much memory.
// Calls decide how much buffers of symbolic size take; so lying apart may
// double their bytes, whatever the sizes are.

#include "anabranch/KernelABI.h"
#include "ir/Anabranch.h"
#include "ir/PassBase.h"
#include "ir/Sizes.h"
#include "schedule/fusion/Layouts.h"
#include "schedule/memory/Lifetimes.h"
#include "schedule/memory/Passes.h"
#include "schedule/program/Dependencies.h"
#include "schedule/program/SizeTable.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace anabranch {
namespace schedule {
namespace {

/// Buffers of super kernels lie apart as long as they take no more bytes than
/// this.
static constexpr int64_t roomyBytes = 2 << 20;

/// Bytes that one or several buffers share.
struct Bytes {
  SmallVector<ir::BufferOp> buffers;
  Attribute bytes;
  int64_t first = INT64_MAX, last = -1; // commands as they are listed
  Lifetime life;
  int64_t size = 0; // when static
  Attribute offset;

  bool overlaps(const Bytes &other) const { return life.overlaps(other.life); }
};

class Planner {
public:
  Planner(ir::ProgramOp program, ModuleOp module)
      : program(program), sizes(module, program.getSlots()) {}

  LogicalResult run() {
    collect();
    findUses();
    FailureOr<int64_t> end = placeApart();
    if (failed(end) || failed(spreadSymbolic()))
      return failure();
    program.setPersistentBytesAttr(sizes.literal(placePersistent()));
    place(*end);
    return success();
  }

private:
  void place(int64_t staticEnd) {
    Attribute end = placeDynamic(sizes.literal(staticEnd));
    program.setArenaBytesAttr(end);
    for (auto &[number, block] : blocks)
      for (ir::BufferOp buffer : block.buffers)
        annotate(buffer, block);
    program.setSlots(sizes.slotCount());
    if (func::FuncOp function = sizes.function())
      program.setSizesFunctionAttr(
          FlatSymbolRefAttr::get(function.getSymNameAttr()));
  }

  void collect() {
    for (auto buffer : program.getBody().getOps<ir::BufferOp>()) {
      if (buffer.getKind() != "arena" && buffer.getKind() != "persistent")
        continue;
      Bytes &block = blocks[buffer.getMemory()];
      block.buffers.push_back(buffer);
      block.bytes = buffer.getBytes();
    }
  }

  void findUses() {
    int64_t number = 0;
    for (auto stream : program.getBody().getOps<ir::StreamOp>())
      stream.forEachCommand([&](Operation *command) {
        for (Value operand : command->getOperands()) {
          auto found = blocks.find(memoryOf(operand));
          if (found == blocks.end())
            continue;
          found->second.first = std::min(found->second.first, number);
          found->second.last = std::max(found->second.last, number);
        }
        ++number;
      });
  }

  /// Places static buffers. Those of super kernels lie as far apart as memory
  /// allows.
  FailureOr<int64_t> placeApart() {
    FailureOr<int64_t> least = placeStatic(0);
    if (failed(least) || !hasSupers())
      return least;
    for (int spread : {INT_MAX, 16, 4}) {
      FailureOr<int64_t> end = placeStatic(spread);
      if (failed(end) || *end <= std::max(roomyBytes, 2 * *least))
        return end;
    }
    return placeStatic(0);
  }

  /// Finds lifetimes for buffers of symbolic size. Those of super kernels lie
  /// as far apart as twice the least memory allows.
  LogicalResult spreadSymbolic() {
    if (failed(setLifetimes(0)))
      return failure();
    if (!hasSupers())
      return success();
    int64_t least = typicalBytes(shareRegions());
    for (int spread : {INT_MAX, 16, 4, 2}) {
      if (failed(setLifetimes(spread)))
        return failure();
      if (typicalBytes(shareRegions()) <= 2 * least)
        return success();
    }
    return setLifetimes(0);
  }

  bool hasSupers() {
    return program.walk([](ir::SuperOp) { return WalkResult::interrupt(); })
        .wasInterrupted();
  }

  int64_t placePersistent() {
    int64_t end = 0;
    for (auto &[number, block] : blocks) {
      if (block.buffers.front().getKind() != "persistent")
        continue;
      block.offset = sizes.literal(end);
      end += aligned(cast<IntegerAttr>(block.bytes).getInt());
    }
    return end;
  }

  static int64_t aligned(int64_t bytes) {
    return llvm::alignTo(bytes, ANABRANCH_BUFFER_ALIGNMENT);
  }

  static bool isArena(Bytes &block) {
    return block.buffers.front().getKind() == "arena";
  }

  /// The lowest offset at which `size` bytes are free while the block lives.
  static int64_t findGap(const Bytes &block, ArrayRef<Bytes *> placed) {
    SmallVector<std::pair<int64_t, int64_t>> taken;
    for (Bytes *other : placed)
      if (block.overlaps(*other)) {
        int64_t offset = cast<IntegerAttr>(other->offset).getInt();
        taken.push_back({offset, offset + other->size});
      }
    llvm::sort(taken);
    int64_t offset = 0;
    for (auto [begin, end] : taken) {
      if (begin - offset >= block.size)
        break;
      offset = std::max(offset, end);
    }
    return offset;
  }

  LogicalResult setLifetimes(int spread) {
    auto lifetimes = lifetimesOf(program, spread);
    if (failed(lifetimes))
      return failure();
    for (auto &[number, block] : blocks)
      block.life = lifetimes->lookup(number);
    return success();
  }

  FailureOr<int64_t> placeStatic(int spread) {
    if (failed(setLifetimes(spread)))
      return failure();
    SmallVector<Bytes *> order, placed;
    for (auto &[number, block] : blocks) {
      auto bytes = dyn_cast<IntegerAttr>(block.bytes);
      if (!isArena(block) || !bytes)
        continue;
      block.size = aligned(bytes.getInt());
      order.push_back(&block);
    }
    llvm::sort(order, [](Bytes *a, Bytes *b) {
      return std::make_pair(-a->size, a->first) <
             std::make_pair(-b->size, b->first);
    });
    int64_t end = 0;
    for (Bytes *block : order) {
      int64_t offset = findGap(*block, placed);
      block->offset = sizes.literal(offset);
      placed.push_back(block);
      end = std::max(end, offset + block->size);
    }
    return end;
  }

  /// Bytes of symbolic size that several blocks use in turn.
  struct Region {
    SmallVector<Bytes *> members;
    Attribute bytes; ///< null if the members differ
  };

  static int64_t typicalBytes(ArrayRef<Region> regions) {
    int64_t sum = 0;
    for (const Region &region : regions) {
      int64_t most = 0;
      for (Bytes *block : region.members)
        for (ir::BufferOp buffer : block->buffers)
          most = std::max(most, typicalBytes(buffer));
      sum += most;
    }
    return sum;
  }

  static int64_t typicalBytes(ir::BufferOp buffer) {
    int64_t bytes = dtypeBytes(buffer.getDtype());
    for (Attribute size : buffer.getShape()) {
      auto number = dyn_cast<IntegerAttr>(size);
      bytes *= number ? number.getInt() : ir::typicalSize;
    }
    return bytes;
  }

  /// Groups blocks of symbolic size. Those that never live together share a
  /// region.
  std::vector<Region> shareRegions() {
    std::vector<Region> regions;
    auto fits = [](const Region &region, const Bytes &block) {
      return llvm::none_of(region.members, [&](Bytes *member) {
        return member->overlaps(block);
      });
    };
    for (auto &[number, block] : blocks) {
      if (!isArena(block) || isa<IntegerAttr>(block.bytes))
        continue;
      Region *best = nullptr;
      for (Region &region : regions)
        if (fits(region, block) && (!best || (region.bytes == block.bytes &&
                                              best->bytes != block.bytes)))
          best = &region;
      if (!best)
        best = &regions.emplace_back(Region{{}, block.bytes});
      if (best->bytes != block.bytes)
        best->bytes = nullptr;
      best->members.push_back(&block);
    }
    return regions;
  }

  Attribute placeDynamic(Attribute end) {
    for (const Region &region : shareRegions()) {
      Attribute bytes = region.members.front()->bytes;
      for (Bytes *block : region.members) {
        block->offset = end;
        bytes = sizes.max(bytes, block->bytes);
      }
      end = sizes.add(end, sizes.align(bytes));
    }
    return end;
  }

  void annotate(ir::BufferOp buffer, const Bytes &block) {
    buffer.setOffsetAttr(block.offset);
    if (block.last < 0)
      return;
    buffer.setFirstUse(block.first);
    buffer.setLastUse(block.last);
  }

  ir::ProgramOp program;
  SizeTable sizes;
  llvm::MapVector<int64_t, Bytes> blocks;
};

LogicalResult planMemory(ModuleOp module) {
  for (auto program : module.getOps<ir::ProgramOp>())
    if (failed(Planner(program, module).run()))
      return failure();
  return success();
}

} // namespace
} // namespace schedule

std::unique_ptr<Pass> createPlanMemoryPass() {
  return ir::makePass<ModuleOp, LLVM::LLVMDialect, arith::ArithDialect>(
      "anabranch-plan-memory", "gives the program's buffers their offsets",
      schedule::planMemory);
}

} // namespace anabranch
