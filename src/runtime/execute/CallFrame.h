//===- CallFrame.h - the memory of one call ---------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_EXECUTE_CALLFRAME_H
#define ANABRANCH_RUNTIME_EXECUTE_CALLFRAME_H

#include "runtime/device/DeviceBuffer.h"
#include "runtime/execute/HostResults.h"
#include "runtime/execute/ModeTuner.h"
#include "runtime/execute/ObjectPool.h"
#include "runtime/execute/StreamState.h"
#include "runtime/plan/BoundLaunches.h"
#include "runtime/superkernel/SuperKernelRun.h"

#include <memory>
#include <vector>

namespace anabranch::runtime {

/// Arenas that wait for the next call, of any program that shares them.
using ArenaPool = ObjectPool<DeviceBuffer>;

/// The memory of one call, which the next call of the program uses again:
/// operand pointers, sizes, grids, arena. The frame computes anew only when a
/// size changes. One thread at a time owns a frame.
class CallFrame {
public:
  CallFrame(const Plan &plan, const Commands &commands,
            const SuperKernels &superKernelTasks);

  /// Recomputes what depends on `slots`, and makes the arena large enough.
  /// Call after the slots changed; `sized` says whether it succeeded.
  Status resize();

  /// Call where no slot changed: the arena may be another one than the last
  /// call's.
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

  /// The times of calls with the present sizes and so many workers.
  ModeTuner &tunerFor(int threads);

  /// Without the arena, which a pool lends.
  size_t bytes() const { return scratch.bytes(); }

  const Plan &plan;
  const Commands &commands;

  std::vector<int64_t> slots;
  bool sized = false;

  std::vector<void *> inputs, outputs; ///< the caller's memory, by number
  BoundLaunches launches;
  /// Null where the program needs none; `lastArena` may be gone.
  DeviceBuffer *arena = nullptr;
  const DeviceBuffer *lastArena = nullptr;
  DeviceBuffer scratch;

  HostResults hostResults;

  std::unique_ptr<StreamState[]> streams;
  std::unique_ptr<EventState[]> events;
  std::vector<std::unique_ptr<SuperKernelRun>> superKernels;

private:
  Status checkSizes() const;
  Status sizeArena();
  Status placeAnew();
  Status checkArenaParts(int64_t arenaBytes);
  void fillViews();

  ModeTuner tuner;
  int tunedThreads = 0; ///< of the calls that the tuner knows
  size_t arenaBytes = 0;
  const void *placedAt = nullptr; ///< the arena that operands point into
  std::vector<int64_t> views;
};

/// Frames that wait for the next call of their program.
using FramePool = ObjectPool<CallFrame>;

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_EXECUTE_CALLFRAME_H
