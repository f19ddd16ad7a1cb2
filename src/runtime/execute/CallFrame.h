//===- CallFrame.h - the memory of one call ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_EXECUTE_CALLFRAME_H
#define ANABRANCH_RUNTIME_EXECUTE_CALLFRAME_H

#include "runtime/device/DeviceBuffer.h"
#include "runtime/execute/AlignedInputs.h"
#include "runtime/execute/HostResults.h"
#include "runtime/execute/ModeTuner.h"
#include "runtime/execute/ObjectPool.h"
#include "runtime/execute/StreamState.h"
#include "runtime/plan/BoundLaunches.h"
#include "runtime/plan/BufferViews.h"
#include "runtime/superkernel/SuperKernelRun.h"
#include "runtime/superkernel/TaskGraphCache.h"
#include "runtime/workers/CallsInFlight.h"

#include <memory>
#include <vector>

namespace anabranch::runtime {

/// Arenas that wait for the next call of any program that shares them.
using ArenaPool = ObjectPool<DeviceBuffer>;

/// The memory of one call: operand pointers, sizes, grids, arena. The program's
/// next call reuses it, and recomputes only if a size changed. One thread at a
/// time owns a frame.
class CallFrame final : public BufferViews {
public:
  CallFrame(const Plan &plan, const Commands &commands,
            const SuperKernels &supers);

  /// Recomputes everything that depends on `slots`, and makes the arena large
  /// enough. Call it after the slots changed. `sized` says whether it
  /// succeeded.
  Status resize();

  /// Places the operands in the arena, if it is another one than in the last
  /// call. Call it where no slot changed.
  Status place() {
    if (!arena || (arena->get() == placedAt && arena->suffices(arenaBytes)))
      return {};
    return placeAnew();
  }

  /// Gives each super kernel the tasks for this call's sizes.
  Status bindSuperKernels();

  /// Writes the caller's pointers into the operands.
  void bindCaller();

  void *dataOf(int buffer) const;
  TensorView viewOf(int buffer) const override;
  void keep(int buffer, const HostResult &made) override;
  /// A view of a part of a buffer, for an argument of a call.
  TensorView viewOf(const ViewPlan &part) const;
  const int64_t *shapeOf(int buffer) const {
    return views.data() + plan.buffers[buffer].view;
  }
  const int64_t *stridesOf(int buffer) const {
    return shapeOf(buffer) + plan.buffers[buffer].shape.size();
  }

  /// The tuner with the times of calls of these sizes and this many threads.
  ModeTuner &tunerFor(int threads);

  /// The scratch memory of the thread that owns the frame.
  LaunchScratch callerScratch() { return {scratch.get(), scratchSetup}; }

  /// Bytes of the frame, without the arena, which a pool lends.
  size_t bytes() const { return scratch.bytes() + alignedInputs.bytes(); }

  const Plan &plan;
  const Commands &commands;

  std::vector<int64_t> slots;
  bool sized = false;

  /// By number: the caller's memory, or a copy in `alignedInputs`.
  std::vector<void *> inputs, outputs;
  AlignedInputs alignedInputs;
  BoundLaunches launches;
  /// Null if the program needs none. `lastArena` may no longer exist.
  DeviceBuffer *arena = nullptr;
  const DeviceBuffer *lastArena = nullptr;

  /// Of the call that runs; null if calls need not take turns.
  CallTurn *turn = nullptr;
  /// CPU time in nanoseconds of the last call that ran beside as many others as
  /// there are cores; 0: none did.
  int64_t timeInCrowd = 0;

  HostResults hostResults;

  std::unique_ptr<StreamState[]> streams;
  std::unique_ptr<EventState[]> events;
  std::vector<std::unique_ptr<SuperKernelRun>> superKernels;

private:
  std::vector<const TaskGraphCache *> taskGraphs; ///< by super kernel
  /// Whether each super kernel has the tasks for `slots`.
  bool superKernelsAreBound = false;

  Status checkSizes() const;
  Status sizeArena();
  Status placeAnew();
  Status checkDynamicRanges(int64_t arenaBytes);
  void fillViews();
  Status fillArgumentViews();

  struct Tuned {
    int threads;
    ModeTuner tuner;
  };
  /// A part of a CPU in a quota lets calls change between two numbers.
  static constexpr size_t mostTuned = 2;
  std::vector<Tuned> tuned; ///< at most `mostTuned`, the newest last
  DeviceBuffer scratch;
  uint64_t scratchSetup = 0; ///< what `scratch` holds (LaunchScratch.h)
  size_t arenaBytes = 0;
  const void *placedAt = nullptr; ///< the arena that the operands point into
  std::vector<int64_t> views;
};

/// Frames that wait for the next call of their program.
using FramePool = ObjectPool<CallFrame>;

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_EXECUTE_CALLFRAME_H
