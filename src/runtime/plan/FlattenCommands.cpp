//===- FlattenCommands.cpp - streams of a program as arrays ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/plan/FlattenCommands.h"

#include "package/verify/Actions.h"
#include "package/verify/RuntimeOperator.h"
#include "runtime/plan/Labels.h"
#include "runtime/plan/Steps.h"

#include <algorithm>

namespace anabranch::runtime {

using namespace package;

namespace {

bool allStatic(const std::vector<Size> &sizes) {
  for (const Size &size : sizes)
    if (size.slot() >= 0)
      return false;
  return true;
}

class CommandsBuilder {
public:
  CommandsBuilder(const ProgramT &program, const Library *library, Plan &plan,
                  trace::ProgramInfo &info, Commands &out)
      : program(program), library(library), plan(plan), info(info), out(out) {}

  Status build(const Streams &streams);

private:
  Expected<Command> add(const CommandT &command);
  Status addLaunch(const LaunchT &launch);
  Status prepare(const CallT &call, CallPlan &c);
  Status addCall(const CallT &call, const std::string &location);
  Status addStep(const StepKind &kind, const ActionUnion &action);
  Status addSuper(const SuperT &super);
  void addBranch(const BranchT &branch);
  void addLoop(const LoopT &loop);
  RegionArgument regionArgument(const ArgumentT &argument);
  std::vector<RegionArgument>
  regionArguments(const std::vector<std::unique_ptr<ArgumentT>> &list);
  void needViews(const std::vector<int> &list) {
    for (int buffer : list)
      needView(buffer);
  }
  void addArguments(CallPlan &call,
                    const std::vector<std::unique_ptr<ArgumentT>> &list);
  void fillArgument(CallPlan &call, int at, const ArgumentT &argument);
  int addView(const ArgumentT &argument);

  /// Has frames keep shape and strides of this buffer.
  void needView(int buffer) {
    BufferPlan &b = plan.buffers[buffer];
    if (b.view >= 0)
      return;
    b.view = plan.viewNumbers;
    plan.viewNumbers += static_cast<int>(2 * b.shape.size());
  }

  const ProgramT &program;
  const Library *library;
  Plan &plan;
  trace::ProgramInfo &info;
  Commands &out;
};

Status CommandsBuilder::addLaunch(const LaunchT &launch) {
  LaunchPlan l;
  Expected<KernelEntry> kernel =
      plan.device->bind(library, program.kernels[launch.kernel]->name);
  if (!kernel)
    return kernel.takeStatus();
  l.kernel = *kernel;
  l.firstOperand = static_cast<int>(out.operands.size());
  l.operandCount = static_cast<int>(launch.buffers.size());
  l.inputCount = launch.input_count;
  l.firstSize = static_cast<int>(out.sizes.size());
  l.sizeCount = static_cast<int>(launch.sizes.size());
  l.staticSizes = allStatic(launch.sizes);
  l.cores = launch.cores;
  for (int buffer : launch.buffers) {
    int operand = static_cast<int>(out.operands.size());
    BufferPlan &b = plan.buffers[buffer];
    if (b.kind == BufferKind::Input)
      out.inputPatches.push_back({operand, b.index});
    if (b.kind == BufferKind::Output)
      out.outputPatches.push_back({operand, b.index});
    if (b.kind == BufferKind::External) {
      b.readByKernels = true;
      needView(buffer);
      out.resultPatches[buffer].push_back({operand, buffer});
    }
    out.operands.push_back(buffer);
  }
  out.sizes.insert(out.sizes.end(), launch.sizes.begin(), launch.sizes.end());
  out.launches.push_back(l);
  return {};
}

Status CommandsBuilder::addSuper(const SuperT &super) {
  SuperKernel s;
  s.firstLaunch = static_cast<int>(out.launches.size());
  s.launchCount = static_cast<int>(super.launches.size());
  s.firstLabel = static_cast<int>(info.labels.size());
  s.streamCount = super.streams;
  for (size_t i = 0; i < super.launches.size(); ++i) {
    info.labels.push_back(
        labelOf(program, *super.launches[i], super.locations[i]));
    info.labels.back().super = s.firstLabel - 1;
    if (Status failed = addLaunch(*super.launches[i]); !failed.ok())
      return failed;
  }
  for (const auto &order : super.orders)
    s.orders.push_back({order->before, order->after});
  out.supers.push_back(std::move(s));
  return {};
}

Status CommandsBuilder::addStep(const StepKind &kind,
                                const ActionUnion &action) {
  StepPlan step;
  step.run = stepFunctionOf(action.type);
  kind.visit(action, [&](int buffer, bool) {
    step.buffers.push_back(buffer);
    needView(buffer);
    if (plan.buffers[buffer].kind == BufferKind::External)
      plan.buffers[buffer].readByKernels = true;
  });
  if (!step.run || step.buffers.size() > mostStepTensors)
    return Status(StatusCode::Internal,
                  std::string("the runtime cannot run a ") + kind.name);
  out.steps.push_back(std::move(step));
  return {};
}

/// A region gets the tensors of other operators in the layout that the program
/// declares.
RegionArgument CommandsBuilder::regionArgument(const ArgumentT &argument) {
  bool isItem = argument.kind == ArgKind::Item;
  if (argument.kind != ArgKind::Tensor && !isItem)
    return {-1, *argument.int_value};
  needView(argument.buffer);
  BufferPlan &buffer = plan.buffers[argument.buffer];
  buffer.readByKernels |= buffer.kind == BufferKind::External;
  return {argument.buffer, Size(), isItem};
}

std::vector<RegionArgument> CommandsBuilder::regionArguments(
    const std::vector<std::unique_ptr<ArgumentT>> &list) {
  std::vector<RegionArgument> arguments;
  arguments.reserve(list.size());
  for (const auto &argument : list)
    arguments.push_back(regionArgument(*argument));
  return arguments;
}

void CommandsBuilder::addBranch(const BranchT &branch) {
  BranchPlan b;
  if (branch.predicate)
    b.predicate = regionArgument(*branch.predicate);
  b.regions[0] = branch.regions.front();
  b.regions[1] = branch.regions.back();
  b.arguments = regionArguments(branch.arguments);
  b.results = branch.results;
  needViews(b.results);
  out.branches.push_back(std::move(b));
}

void CommandsBuilder::addLoop(const LoopT &loop) {
  LoopPlan l;
  l.condition = loop.condition;
  l.body = loop.body;
  if (loop.trips)
    l.trips = *loop.trips;
  l.carried = regionArguments(loop.carried);
  for (size_t i = 0; i < loop.carried.size(); ++i)
    if (!loop.carried[i]->written)
      l.turning.push_back(static_cast<int>(i));
  l.scanned = regionArguments(loop.scanned);
  l.arguments = regionArguments(loop.arguments);
  l.results = loop.results;
  l.stacked = loop.stacked;
  l.spare = loop.spare;
  l.predicate = loop.predicate;
  for (const std::vector<int> *list : {&l.results, &l.stacked, &l.spare})
    needViews(*list);
  if (l.condition >= 0)
    needView(l.predicate);
  out.loops.push_back(std::move(l));
}

void CommandsBuilder::fillArgument(CallPlan &call, int at,
                                   const ArgumentT &argument) {
  HostArgument &a = call.arguments[at];
  a.name = argument.name.c_str();
  a.kind = static_cast<HostArgument::Kind>(argument.kind);
  a.boolean = argument.bool_value;
  a.real = argument.float_value;
  a.string = argument.string_value.c_str();
  a.dtype = static_cast<anabranch::DType>(argument.dtype_value);
  if (argument.kind == ArgKind::Tensor) {
    needView(argument.buffer);
    int view = argument.view ? addView(argument) : -1;
    call.patches.push_back({at, argument.buffer, Size(), view});
  } else if (argument.int_value) {
    a.integer = argument.int_value->value();
    if (argument.int_value->slot() >= 0)
      call.patches.push_back({at, -1, *argument.int_value, -1});
  } else if (argument.kind == ArgKind::List) {
    a.itemCount = argument.items.size();
    call.firstItem[at] = static_cast<int>(call.arguments.size());
    addArguments(call, argument.items);
  }
}

/// Adds the view of an argument. Returns its number.
int CommandsBuilder::addView(const ArgumentT &argument) {
  const ViewT &view = *argument.view;
  out.views.push_back({argument.buffer, *view.offset, view.shape, view.strides,
                       plan.viewNumbers});
  plan.viewNumbers += static_cast<int>(2 * view.shape.size());
  return static_cast<int>(out.views.size()) - 1;
}

/// The items of a list are neighbours. Lists among them follow.
void CommandsBuilder::addArguments(
    CallPlan &call, const std::vector<std::unique_ptr<ArgumentT>> &list) {
  int first = static_cast<int>(call.arguments.size());
  call.arguments.resize(call.arguments.size() + list.size());
  call.firstItem.resize(call.arguments.size(), -1);
  for (size_t i = 0; i < list.size(); ++i)
    fillArgument(call, first + static_cast<int>(i), *list[i]);
}

/// Finds who runs the operator.
Status CommandsBuilder::prepare(const CallT &call, CallPlan &c) {
  if (isRuntimeOperator(call.op)) {
    c.own = findOwnOperator(call.op);
    return c.own ? Status()
                 : Status(StatusCode::BadPackage,
                          "the runtime has no operator " + call.op);
  }
  Expected<void *> prepared =
      plan.host->prepare(call.op.c_str(), call.overload.c_str());
  if (!prepared)
    return prepared.takeStatus();
  c.prepared = *prepared;
  return {};
}

Status CommandsBuilder::addCall(const CallT &call,
                                const std::string &location) {
  CallPlan c;
  if (Status s = prepare(call, c); !s.ok())
    return s;
  c.op = call.op;
  c.overload = call.overload;
  c.location = location;
  c.argumentCount = call.arguments.size();
  addArguments(c, call.arguments);
  c.results = call.results;
  c.wanted = std::make_unique<bool[]>(call.results.size());
  for (size_t i = 0; i < call.results.size(); ++i) {
    c.wanted[i] = call.results[i] >= 0;
    if (c.wanted[i])
      needView(call.results[i]);
  }
  out.calls.push_back(std::move(c));
  return {};
}

Expected<Command> CommandsBuilder::add(const CommandT &command) {
  const ActionUnion &action = command.action;
  if (const RecordT *record = action.AsRecord())
    return Command{Command::Kind::Record, record->event, -1, 0};
  if (const WaitT *wait = action.AsWait())
    return Command{Command::Kind::Wait, wait->event, -1, 0};
  Command result{Command::Kind::Step, 0, static_cast<int>(info.labels.size()),
                 0};
  info.labels.push_back(labelOf(program, command));
  if (const LaunchT *launch = action.AsLaunch()) {
    result.kind = Command::Kind::Launch;
    result.index = static_cast<int>(out.launches.size());
    if (Status s = addLaunch(*launch); !s.ok())
      return s;
  } else if (const SuperT *super = action.AsSuper()) {
    result.kind = Command::Kind::Super;
    result.index = static_cast<int>(out.supers.size());
    if (Status s = addSuper(*super); !s.ok())
      return s;
  } else if (const BranchT *branch = action.AsBranch()) {
    result.kind = Command::Kind::Branch;
    result.index = static_cast<int>(out.branches.size());
    addBranch(*branch);
  } else if (const LoopT *loop = action.AsLoop()) {
    result.kind = Command::Kind::Loop;
    result.index = static_cast<int>(out.loops.size());
    addLoop(*loop);
  } else if (const CallT *call = action.AsCall()) {
    result.kind = Command::Kind::Call;
    result.index = static_cast<int>(out.calls.size());
    const trace::Label &l = info.labels.back();
    std::string where =
        l.file.empty() ? "" : l.file + ":" + std::to_string(l.line);
    if (Status s = addCall(*call, where); !s.ok())
      return s;
  } else if (const StepKind *step = stepKindOf(action)) {
    result.index = static_cast<int>(out.steps.size());
    if (Status s = addStep(*step, action); !s.ok())
      return s;
  }
  return result;
}

static void addMembers(const SuperKernel &super, int stream, StreamPlan &out) {
  for (int i = 0; i < super.launchCount; ++i)
    out.commands.push_back({Command::Kind::Launch, super.firstLaunch + i,
                            super.firstLabel + i, stream});
}

Status CommandsBuilder::build(const Streams &streams) {
  out.resultPatches.resize(program.buffers.size());
  out.events = program.events;
  std::vector<std::pair<int, int>> priorities;
  // For each stream, the indices of the program's commands.
  std::vector<std::vector<size_t>> places;
  auto firstStream = static_cast<int>(info.streams.size());
  for (size_t s = 0; s < streams.size(); ++s) {
    StreamPlan stream;
    places.emplace_back();
    for (const auto &command : streams[s]->commands) {
      size_t label = info.labels.size();
      Expected<Command> c = add(*command);
      if (!c)
        return c.takeStatus();
      c->stream = static_cast<int>(s);
      for (; label < info.labels.size(); ++label)
        info.labels[label].stream = firstStream + c->stream;
      places.back().push_back(stream.commands.size());
      stream.commands.push_back(*c);
      if (c->kind == Command::Kind::Super)
        addMembers(out.supers[c->index], c->stream, stream);
    }
    out.streams.push_back(std::move(stream));
    priorities.push_back({-streams[s]->priority, static_cast<int>(s)});
    info.streams.push_back({streamName(*streams[s], s), streams[s]->priority});
  }
  addEventEdges(out, info);
  std::sort(priorities.begin(), priorities.end());
  for (auto [priority, stream] : priorities)
    out.byPriority.push_back(stream);
  Expected<std::vector<CommandRef>> order =
      serialOrder(streams, program.events);
  if (!order)
    return order.takeStatus();
  for (CommandRef ref : *order) {
    const Command &c =
        out.streams[ref.stream].commands[places[ref.stream][ref.command]];
    if (c.kind != Command::Kind::Record && c.kind != Command::Kind::Wait)
      out.serial.push_back(c);
  }
  return {};
}

} // namespace

Status flattenCommands(const ProgramT &program, const Streams &streams,
                       const Library *library, trace::ProgramInfo &info,
                       Plan &plan, Commands &commands) {
  return CommandsBuilder(program, library, plan, info, commands).build(streams);
}

} // namespace anabranch::runtime
