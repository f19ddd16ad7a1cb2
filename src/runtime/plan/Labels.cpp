//===- Labels.cpp - what traces and errors say of commands ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/plan/Labels.h"

#include "package/verify/Actions.h"

namespace anabranch::runtime {

using namespace package;

namespace {

std::vector<trace::Extent> toExtents(const std::vector<Size> &sizes) {
  std::vector<trace::Extent> extents;
  extents.reserve(sizes.size());
  for (const Size &size : sizes)
    extents.push_back({size.value(), size.slot()});
  return extents;
}

void addOperand(const ProgramT &program, int buffer, bool written,
                trace::Label &label) {
  if (buffer < 0)
    return;
  const BufferT &b = *program.buffers[buffer];
  label.operands.push_back({name(static_cast<anabranch::DType>(b.dtype)),
                            toExtents(b.shape), written});
}

void addArguments(const ProgramT &program,
                  const std::vector<std::unique_ptr<ArgumentT>> &arguments,
                  trace::Label &label) {
  for (const auto &argument : arguments) {
    if (argument->kind == ArgKind::Tensor || argument->kind == ArgKind::Item)
      addOperand(program, argument->buffer, false, label);
    addArguments(program, argument->items, label);
  }
}

std::vector<trace::Term>
toTerms(const std::vector<std::unique_ptr<TermT>> &terms,
        const LaunchT &launch) {
  std::vector<trace::Term> result;
  for (const auto &term : terms) {
    std::vector<Size> sizes;
    sizes.reserve(term->sizes.size());
    for (int size : term->sizes)
      sizes.push_back(launch.sizes[size]);
    result.push_back({term->factor, toExtents(sizes)});
  }
  return result;
}

void describeLaunch(const ProgramT &program, const LaunchT &launch,
                    trace::Label &label) {
  const KernelT &kernel = *program.kernels[launch.kernel];
  label.name = kernel.name;
  for (size_t i = 0; i < launch.buffers.size(); ++i)
    addOperand(program, launch.buffers[i],
               static_cast<int>(i) >= launch.input_count, label);
  if (kernel.work)
    label.work = trace::Work{toTerms(kernel.work->flops, launch),
                             toTerms(kernel.work->bytes, launch)};
}

void describeCall(const ProgramT &program, const CallT &call,
                  trace::Label &label) {
  label.kind = "call";
  label.name = call.op + (call.overload.empty() ? "" : "." + call.overload);
  addArguments(program, call.arguments, label);
  for (int buffer : writtenArguments(call))
    addOperand(program, buffer, true, label);
  for (int result : call.results)
    addOperand(program, result, true, label);
}

void describeBranch(const ProgramT &program, const BranchT &branch,
                    trace::Label &label) {
  label.kind = "branch";
  label.name = branch.predicate ? "cond" : "call";
  if (branch.predicate && branch.predicate->kind == ArgKind::Tensor)
    addOperand(program, branch.predicate->buffer, false, label);
  addArguments(program, branch.arguments, label);
  for (int result : branch.results)
    addOperand(program, result, true, label);
}

void describeLoop(const ProgramT &program, const LoopT &loop,
                  trace::Label &label) {
  label.kind = "loop";
  label.name = loop.condition >= 0 ? "while_loop" : "scan";
  for (const auto *list : {&loop.carried, &loop.scanned, &loop.arguments})
    addArguments(program, *list, label);
  for (const auto *list : {&loop.results, &loop.stacked})
    for (int buffer : *list)
      addOperand(program, buffer, true, label);
}

/// A step reads or writes every element of its tensors once.
void describeStep(const ProgramT &program, const StepKind &step,
                  const ActionUnion &action, trace::Label &label) {
  label.kind = step.name;
  label.name = step.name;
  label.work.emplace();
  step.visit(action, [&](int buffer, bool writes) {
    addOperand(program, buffer, writes, label);
    const BufferT &b = *program.buffers[buffer];
    auto item = itemSize(static_cast<anabranch::DType>(b.dtype));
    label.work->bytes.push_back(
        {static_cast<double>(item), toExtents(b.shape)});
  });
}

/// The work of a super kernel is the sum of its launches'; unknown if that of
/// one is unknown.
void describeSuper(const ProgramT &program, const SuperT &super,
                   trace::Label &label) {
  label.kind = "super";
  label.name = super.name;
  label.work.emplace();
  for (const auto &launch : super.launches) {
    const KernelT &kernel = *program.kernels[launch->kernel];
    if (!kernel.work) {
      label.work.reset();
      return;
    }
    for (trace::Term &term : toTerms(kernel.work->flops, *launch))
      label.work->flops.push_back(std::move(term));
    for (trace::Term &term : toTerms(kernel.work->bytes, *launch))
      label.work->bytes.push_back(std::move(term));
  }
}

std::string shownName(const trace::Label &label) {
  std::string text =
      "anabranch: " + (label.operators.empty() ? label.name : label.operators);
  if (label.file.empty())
    return text;
  return text + " (" + label.file.substr(label.file.find_last_of('/') + 1) +
         ":" + std::to_string(label.line) + ")";
}

void describePlace(const ProgramT &program, int location, trace::Label &label) {
  if (location >= 0) {
    const LocationT &l = *program.locations[location];
    label.operators = l.operators;
    label.file = l.file;
    label.line = l.line;
    label.function = l.function;
  }
  label.shown = shownName(label);
}

} // namespace

trace::Label labelOf(const ProgramT &program, const CommandT &command) {
  trace::Label label;
  if (const LaunchT *launch = command.action.AsLaunch())
    describeLaunch(program, *launch, label);
  else if (const CallT *call = command.action.AsCall())
    describeCall(program, *call, label);
  else if (const StepKind *step = stepKindOf(command.action))
    describeStep(program, *step, command.action, label);
  else if (const BranchT *branch = command.action.AsBranch())
    describeBranch(program, *branch, label);
  else if (const LoopT *loop = command.action.AsLoop())
    describeLoop(program, *loop, label);
  else if (const SuperT *super = command.action.AsSuper())
    describeSuper(program, *super, label);
  describePlace(program, command.location, label);
  return label;
}

trace::Label labelOf(const ProgramT &program, const LaunchT &launch,
                     int location) {
  trace::Label label;
  describeLaunch(program, launch, label);
  describePlace(program, location, label);
  return label;
}

std::string streamName(const StreamT &stream, size_t number) {
  return stream.name.empty() ? "stream " + std::to_string(number) : stream.name;
}

void addEventEdges(const Commands &commands, trace::ProgramInfo &info) {
  auto isMember = [&](const Command &c) {
    return info.labels[static_cast<size_t>(c.label)].super >= 0;
  };
  std::vector<int> recordedAfter(static_cast<size_t>(commands.events), -1);
  for (const StreamPlan &stream : commands.streams) {
    int last = -1;
    for (const Command &c : stream.commands) {
      if (c.label >= 0)
        last = isMember(c) ? last : c.label;
      else if (c.kind == Command::Kind::Record)
        recordedAfter[c.index] = last;
    }
  }
  for (const StreamPlan &stream : commands.streams) {
    std::vector<int> sources; // of the waits since the last command
    for (const Command &c : stream.commands) {
      if (c.kind == Command::Kind::Wait)
        sources.push_back(recordedAfter[c.index]);
      if (c.label < 0 || isMember(c))
        continue;
      for (int source : sources)
        if (source >= 0)
          info.events.push_back({source, c.label});
      sources.clear();
    }
  }
}

} // namespace anabranch::runtime
