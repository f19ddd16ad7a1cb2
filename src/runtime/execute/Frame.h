//===- Frame.h - the memory of one call -------------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_EXECUTE_FRAME_H
#define ANABRANCH_RUNTIME_EXECUTE_FRAME_H

#include "runtime/execute/ModeTuner.h"
#include "runtime/execute/Parking.h"
#include "runtime/load/Plan.h"
#include "runtime/superkernel/SuperRun.h"

#include <atomic>
#include <memory>
#include <vector>

namespace anabranch::runtime {

/// Memory of a device that grows on demand and keeps nothing when it does.
class Block {
public:
  explicit Block(const Device &device) : device(device) {}
  ~Block() { reset(); }
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;

  /// Whether it is large enough, and has not been far too large for long: calls
  /// of different sizes take turns, but one very large shape must not pin its
  /// memory for good.
  bool suffices(size_t wanted);
  /// False when there is no memory; the block is empty then.
  bool reserve(size_t wanted);
  void reset();
  void *get() const { return memory; }
  size_t bytes() const { return size; }

private:
  const Device &device;
  void *memory = nullptr;
  size_t size = 0;
  int timesTooLarge = 0; ///< in a row
};

/// Arenas that wait for the next call, of any program that shares them.
using ArenaPool = Parking<Block>;

/// The tiles, advances and calls of a stream that workers claim; see
/// ParallelRun.cpp for the words.
struct alignas(64) StreamState {
  std::atomic<uint64_t> claim{0};
  std::atomic<int64_t> unfinished{0};
  int cursor = 0; ///< belongs to whoever advances the stream
};

/// Bit 63: recorded; the others: streams that wait.
struct EventState {
  std::atomic<uint64_t> word{0};
};

/// Everything that one call of a program needs and the next one can use again:
/// operand pointers, sizes, grids, arena. What depends on sizes only is
/// computed when they change. One thread at a time owns a frame.
class Frame {
public:
  Frame(const Plan &plan, const Commands &commands);
  ~Frame();

  /// Recomputes what depends on `slots`, and makes the arena large enough.
  /// Call after the slots changed; `sized` says whether it succeeded.
  Status resize();

  /// Otherwise: the arena may be another one than the last call's.
  Status place() {
    if (!arena || (arena->get() == placedAt && arena->suffices(arenaBytes)))
      return {};
    return placeAnew();
  }

  /// Writes the caller's pointers into the operands.
  void bindCaller();

  void *dataOf(int buffer) const;
  /// The buffer as the program declares it.
  TensorView viewOf(int buffer) const;
  const int64_t *shapeOf(int buffer) const {
    return views.data() + plan.buffers[buffer].view;
  }
  const int64_t *stridesOf(int buffer) const {
    return shapeOf(buffer) + plan.buffers[buffer].shape.size();
  }

  /// Runs an operator on the host and binds its results.
  Status callHost(int call);
  /// Gives all results back that were not handed to the caller.
  void dropResults();

  /// What calls with the present sizes and so many workers have taken.
  ModeTuner &tunerFor(int threads);

  /// The arena excepted, which is lent.
  size_t bytes() const { return scratch.bytes(); }

  const Plan &plan;
  const Commands &commands;

  std::vector<int64_t> slots;
  bool sized = false;

  std::vector<void *> inputs, outputs; ///< the caller's memory, by number
  std::vector<void *> operands;        ///< of all launches
  std::vector<int64_t> sizes;
  std::vector<int64_t> tiles; ///< per launch
  int64_t sharedTiles = 0;    ///< of launches that have more than one
  size_t scratchBytes = 0;    ///< the most that any launch needs
  /// Null where the program needs none; `lastArena` may be gone.
  Block *arena = nullptr;
  const Block *lastArena = nullptr;
  Block scratch;

  /// By buffer: what a call returned, and its bytes in the declared layout.
  struct Result {
    HostResult host;
    bool handedOver = false; ///< the caller owns the handle
    void *data = nullptr;
    std::unique_ptr<Block> copy;
  };
  std::vector<Result> results;

  std::unique_ptr<StreamState[]> streams;
  std::unique_ptr<EventState[]> events;
  std::vector<std::unique_ptr<SuperRun>> supers;

private:
  Status checkSizes() const;
  Status sizeArena();
  Status placeAnew();
  Status checkArenaParts(int64_t arenaBytes);
  Status planLaunches();
  void fillViews();
  Status bindResult(const CallPlan &call, int buffer, const HostResult &result);
  void fillArguments(int call);

  ModeTuner tuner;
  int tunedThreads = 0; ///< of the calls that the tuner knows
  size_t arenaBytes = 0;
  const void *placedAt = nullptr; ///< the arena that operands point into
  std::vector<int64_t> views;
  std::vector<std::vector<HostArgument>> arguments; ///< per call
  std::vector<HostResult> fresh;                    ///< while a call returns
};

/// Frames that wait for the next call of their program.
using FrameCache = Parking<Frame>;

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_EXECUTE_FRAME_H
