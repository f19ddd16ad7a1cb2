//===- Actions.cpp - which buffers a command touches ----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/verify/Actions.h"

#include <algorithm>

namespace anabranch::package {

namespace {

void visitCopy(const ActionUnion &action, const AccessVisitor &visit) {
  visit(action.AsCopy()->source, false);
  visit(action.AsCopy()->destination, true);
}

const char *complainOfCopy(const ProgramT &program, const ActionUnion &action) {
  const BufferT &from = *program.buffers[action.AsCopy()->source];
  const BufferT &to = *program.buffers[action.AsCopy()->destination];
  bool same = from.dtype == to.dtype && from.shape.size() == to.shape.size();
  for (size_t i = 0; same && i < from.shape.size(); ++i)
    if (from.shape[i].slot() < 0 && to.shape[i].slot() < 0)
      same = from.shape[i].value() == to.shape[i].value();
  return same ? nullptr : "copies between different types";
}

constexpr StepKind steps[] = {
    {Action::Copy, "copy", visitCopy, complainOfCopy},
};

} // namespace

const StepKind *stepKindOf(const ActionUnion &action) {
  for (const StepKind &step : steps)
    if (step.action == action.type)
      return &step;
  return nullptr;
}

void forEachTensor(const ArgumentT &argument,
                   const std::function<void(int)> &visit) {
  if (argument.kind == ArgKind::Tensor || argument.kind == ArgKind::Item)
    visit(argument.buffer);
  if (argument.kind == ArgKind::List)
    for (const auto &item : argument.items)
      forEachTensor(*item, visit);
}

static void findWritten(const ArgumentT &argument, std::set<int> &buffers) {
  if (argument.kind == ArgKind::Tensor && argument.written)
    buffers.insert(argument.buffer);
  if (argument.kind == ArgKind::List)
    for (const auto &item : argument.items)
      findWritten(*item, buffers);
}

std::set<int> writtenArguments(const CallT &call) {
  std::set<int> buffers;
  for (const auto &argument : call.arguments)
    findWritten(*argument, buffers);
  return buffers;
}

void forEachAccess(const LaunchT &launch, const AccessVisitor &visit) {
  for (size_t i = 0; i < launch.buffers.size(); ++i)
    visit(launch.buffers[i], static_cast<int>(i) >= launch.input_count);
}

static void forEachAccess(const BranchT &branch, const AccessVisitor &visit) {
  auto read = [&](int buffer) { visit(buffer, false); };
  if (branch.predicate)
    forEachTensor(*branch.predicate, read);
  for (const auto &argument : branch.arguments)
    if (!argument->written)
      forEachTensor(*argument, read);
  for (const auto &argument : branch.arguments)
    if (argument->written)
      visit(argument->buffer, true);
  for (int result : branch.results)
    visit(result, true);
}

static void forEachAccess(const LoopT &loop, const AccessVisitor &visit) {
  for (const auto *list : {&loop.carried, &loop.scanned, &loop.arguments})
    for (const auto &argument : *list)
      if (!argument->written)
        forEachTensor(*argument, [&](int buffer) { visit(buffer, false); });
  for (const auto &carried : loop.carried)
    if (carried->written)
      visit(carried->buffer, true);
  for (const auto *list : {&loop.results, &loop.stacked, &loop.spare})
    for (int buffer : *list)
      visit(buffer, true);
  if (loop.condition >= 0)
    visit(loop.predicate, true);
}

void forEachAccess(const ActionUnion &action, const AccessVisitor &visit) {
  if (const LaunchT *launch = action.AsLaunch())
    forEachAccess(*launch, visit);
  if (const SuperT *super = action.AsSuper())
    for (const auto &launch : super->launches)
      forEachAccess(*launch, visit);
  if (const StepKind *step = stepKindOf(action))
    step->visit(action, visit);
  if (const CallT *call = action.AsCall()) {
    for (const auto &argument : call->arguments)
      forEachTensor(*argument, [&](int buffer) { visit(buffer, false); });
    for (int buffer : writtenArguments(*call))
      visit(buffer, true);
    for (int result : call->results)
      if (result >= 0)
        visit(result, true);
  }
  if (const BranchT *branch = action.AsBranch())
    forEachAccess(*branch, visit);
  if (const LoopT *loop = action.AsLoop())
    forEachAccess(*loop, visit);
}

std::vector<bool> readByInitialize(const ProgramT &program) {
  std::vector<bool> read(program.inputs.size(), false);
  for (const auto &stream : program.initialize)
    for (const auto &command : stream->commands)
      forEachAccess(command->action, [&](int number, bool) {
        const BufferT &buffer = *program.buffers[number];
        if (buffer.kind == BufferKind::Input)
          read[buffer.index] = true;
      });
  return read;
}

bool initializesFromInputs(const ProgramT &program) {
  std::vector<bool> read = readByInitialize(program);
  return std::find(read.begin(), read.end(), true) != read.end();
}

std::vector<bool> readByCalls(const ProgramT &program) {
  std::vector<bool> read(program.buffers.size(), false);
  for (const auto &stream : program.streams)
    for (const auto &command : stream->commands)
      forEachAccess(command->action,
                    [&](int buffer, bool) { read[buffer] = true; });
  return read;
}

} // namespace anabranch::package
