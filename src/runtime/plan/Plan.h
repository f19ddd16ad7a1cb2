//===- Plan.h - a program, flattened for the executor -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_PLAN_PLAN_H
#define ANABRANCH_RUNTIME_PLAN_PLAN_H

#include "anabranch/Executable.h"
#include "package/folder/Reader.h"
#include "runtime/device/Device.h"
#include "runtime/operators/OwnOperators.h"
#include "runtime/plan/LaunchOrder.h"
#include "runtime/plan/RegionPrograms.h"
#include "trace/Recorder.h"

#include <memory>
#include <vector>

namespace anabranch::runtime {

using package::BufferKind;
using package::Size;

inline int64_t valueOf(const Size &size, const int64_t *slots) {
  return size.slot() < 0 ? size.value() : slots[size.slot()];
}

struct InputPlan {
  std::string name;
  bool isScalar = false;
  bool mutated = false;
  bool watched = false; ///< `initialize` reads it
  int scalarSlot = -1;
  DType dtype = DType::F32;
  std::vector<Size> shape;
  std::vector<Size> strides; ///< empty: contiguous
};

struct BufferPlan {
  BufferKind kind = BufferKind::Arena;
  int index = -1;
  Size offset, bytes;
  DType dtype = DType::F32;
  std::vector<Size> shape;
  std::vector<Size> strides; ///< empty: contiguous
  const void *constant = nullptr;
  /// Where a frame keeps shape and strides of a buffer that a step, a call or
  /// an output uses as a tensor. -1: nowhere.
  int view = -1;
  /// For External buffers: kernels or steps read it, in the layout above.
  bool readByKernels = false;
  /// For External buffers: the run decides a size. A region reads it, as a
  /// contiguous tensor of any size.
  bool runSized = false;
};

/// A range of the arena whose offset or size is known only at run time.
struct DynamicRange {
  Size offset;
  std::vector<Size> bytes; ///< of the buffers at this offset
};

/// A condition on sizes that the user stated.
struct CheckPlan {
  Size condition; ///< one, or the call fails
  std::string message;
};

struct OutputPlan {
  package::OutputKind kind = package::OutputKind::None;
  int buffer = -1;
  int input = -1;
  Size scalar;
};

struct LaunchPlan {
  KernelEntry kernel;
  int firstOperand = 0, operandCount = 0; ///< in Commands::operands
  int inputCount = 0;                     ///< operands that are read
  int firstSize = 0, sizeCount = 0;       ///< in Commands::sizes
  int cores = 0;                          ///< workers at once; 0: any number
  bool staticSizes = true;
};

/// An argument of a call whose value a frame sets at run time.
struct ArgumentPatch {
  int argument; ///< in CallPlan::arguments
  int buffer;   ///< -1: an int
  Size size;
  int view = -1; ///< in Commands::views; -1: the whole buffer
};

/// A tensor within a buffer (package::View).
struct ViewPlan {
  int buffer;
  Size offset; ///< in elements
  std::vector<Size> shape, strides;
  int numbers; ///< where a frame keeps shape and strides
};

struct CallPlan {
  std::string op, overload, location;
  OwnOperator own = nullptr; ///< null: the host runs the operator
  void *prepared = nullptr;  ///< by the host
  /// The top-level arguments, then list items. `firstItem` says where the items
  /// of a list begin; the frame sets their address.
  std::vector<HostArgument> arguments;
  std::vector<int> firstItem; ///< -1: no list
  size_t argumentCount = 0;
  std::vector<ArgumentPatch> patches;
  std::vector<int> results; ///< buffers, -1: unwanted
  std::unique_ptr<bool[]> wanted;
};

/// The work of a step on its tensors, on any thread. Steps.cpp has the
/// functions.
using StepFunction = void (*)(const Device &device, const TensorView *tensors);

struct StepPlan {
  StepFunction run = nullptr;
  std::vector<int> buffers; ///< of its tensors: at most `mostStepTensors`
};
constexpr size_t mostStepTensors = 8;

/// An argument of a region, or the value that chooses it: a buffer, or an int.
struct RegionArgument {
  int buffer = -1; ///< -1: an int
  Size size;
  bool isItem = false; ///< the number that is the buffer's only element
};

/// A choice between two regions of the program, or a call of one.
struct BranchPlan {
  RegionArgument predicate;
  int regions[2] = {-1, -1}; ///< where it is false, where it is true
  std::vector<RegionArgument> arguments;
  std::vector<int> results; ///< buffers
};

/// A region that runs while a condition holds, or a number of times.
struct LoopPlan {
  int condition = -1, body = -1; ///< regions; -1: no condition
  Size trips = Size(0, -1);      ///< without a condition
  std::vector<RegionArgument> carried, scanned, arguments;
  std::vector<int> turning; ///< numbers in `carried` of what has a result
  std::vector<int> results, stacked, spare; ///< buffers
  int predicate = -1;                       ///< a buffer
};

/// A super kernel: neighbouring launches of Commands::launches.
struct SuperKernel {
  int firstLaunch = 0, launchCount = 0;
  int firstLabel = 0;  ///< of the launches, in turn
  int streamCount = 1; ///< streams that it was formed from
  std::vector<LaunchOrder> orders;
};

struct Command {
  enum class Kind : uint8_t {
    Launch,
    Call,
    Step,
    Record,
    Wait,
    Super,
    Branch,
    Loop
  };
  Kind kind;
  int index; ///< in the list of its kind, or the event
  int label; ///< in ProgramInfo::labels
  int stream;
};

/// In `commands`, the members of a super kernel follow it as launches. A call
/// in the mode `MemberByMember` runs these; in the other modes it skips them.
struct StreamPlan {
  std::vector<Command> commands;
};

/// Operand `operand` points to the input, output or call result number
/// `source`.
struct OperandPatch {
  int operand, source;
};

/// The streams of a program, or those of its initialisation.
struct Commands {
  std::vector<StreamPlan> streams;
  std::vector<int> byPriority; ///< stream numbers, most urgent first
  std::vector<Command> serial; ///< in the order of one worker; no events
  int events = 0;
  std::vector<LaunchPlan> launches;
  std::vector<CallPlan> calls;
  std::vector<ViewPlan> views; ///< of arguments of calls
  std::vector<StepPlan> steps;
  std::vector<SuperKernel> supers;
  std::vector<BranchPlan> branches;
  std::vector<LoopPlan> loops;
  std::vector<int> operands; ///< buffers of all launches, one after the other
  std::vector<Size> sizes;
  std::vector<OperandPatch> inputPatches, outputPatches;
  std::vector<std::vector<OperandPatch>> resultPatches; ///< per buffer
};

/// One program of a package, flattened at load. Calls do not change it.
struct Plan {
  const Device *device = nullptr;
  HostCalls *host = nullptr;
  std::string name;
  int slots = 0;
  std::vector<package::SlotSource> slotSources;
  std::vector<package::SlotLimit> slotLimits;
  std::vector<CheckPlan> checks;
  anabranch_sizes_fn sizesFunction = nullptr;
  std::vector<InputPlan> inputs;
  std::vector<int> mutatedInputs; ///< their numbers
  std::vector<OutputPlan> outputs;
  std::vector<BufferPlan> buffers;
  int viewNumbers = 0; ///< int64s that a frame needs for shapes and strides
  Size arenaBytes;
  int64_t staticArenaBytes = 0; ///< the end of the buffers at static offsets
  std::vector<DynamicRange> dynamicRanges; ///< all others
  int64_t persistentBytes = 0;
  void *persistent = nullptr;
  std::vector<std::string> awaits, records; ///< tags; NamedEvents.h
  Commands initialize, main;
  const RegionPrograms *regions = nullptr; ///< null: no command runs one
  std::shared_ptr<const trace::ProgramInfo> info;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_PLAN_PLAN_H
