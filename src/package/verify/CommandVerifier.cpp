//===- CommandVerifier.cpp - is each command sound by itself? -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/verify/CommandVerifier.h"

#include "anabranch/Tensor.h"
#include "package/verify/Extent.h"
#include "package/verify/Limits.h"
#include "package/verify/RuntimeOperator.h"

#include <algorithm>

namespace anabranch::package {

namespace {
constexpr int nestingLimit = 8;
} // namespace

void CommandVerifier::checkRead(int number, const std::string &where) {
  require(within(number, program.buffers), where,
          "uses a buffer that is not there");
  if (failed())
    return;
  const BufferT &buffer = *program.buffers[number];
  if (initializing)
    require(buffer.kind != BufferKind::Output &&
                staticExtent(buffer).has_value(),
            where, "uses a call's memory before any call");
  if (initializing && buffer.kind == BufferKind::Input)
    require(!program.inputs[buffer.index]->mutated, where,
            "initializes with an input that is mutated");
}

void CommandVerifier::checkWrite(int number, const std::string &where) {
  checkRead(number, where);
  if (failed())
    return;
  const BufferT &buffer = *program.buffers[number];
  require(buffer.kind != BufferKind::Constant, where, "writes to a constant");
  require(buffer.kind != BufferKind::Input ||
              program.inputs[buffer.index]->mutated,
          where, "writes to an input that is not mutated");
  require(buffer.kind != BufferKind::Persistent || initializing, where,
          "writes to memory that all calls share");
}

void CommandVerifier::checkLaunch(const LaunchT &launch,
                                  const std::string &where) {
  require(within(launch.kernel, program.kernels), where,
          "launches a kernel that is not there");
  require(launch.input_count >= 0 &&
              static_cast<size_t>(launch.input_count) <= launch.buffers.size(),
          where, "has a bad number of inputs");
  require(launch.cores >= 0, where, "has a negative number of cores");
  refusals.checkSizes(launch.sizes, where);
  if (!failed())
    checkWork(launch, where);
  if (initializing)
    for (const Size &size : launch.sizes)
      require(isStatic(size), where, "needs a size before any call");
  for (size_t i = 0; i < launch.buffers.size() && !failed(); ++i)
    if (static_cast<int>(i) < launch.input_count)
      checkRead(launch.buffers[i], where);
    else
      checkWrite(launch.buffers[i], where);
  for (size_t i = 0; i < launch.buffers.size() && !failed(); ++i)
    checkSized(launch.buffers[i], where);
}

/// Kernels and steps take memory in the layout that the program declares.
void CommandVerifier::checkSized(int number, const std::string &where) {
  for (const Size &size : program.buffers[number]->shape)
    require(!isStatic(size) || size.value() >= 0, where,
            "uses memory whose size only the run knows");
}

/// Checks the kernel's work: its terms refer to the launch's sizes.
void CommandVerifier::checkWork(const LaunchT &launch,
                                const std::string &where) {
  const WorkT *work = program.kernels[launch.kernel]->work.get();
  if (!work)
    return;
  for (const auto *terms : {&work->flops, &work->bytes})
    for (const auto &term : *terms)
      for (int size : term->sizes)
        require(within(size, launch.sizes), where,
                "has a kernel whose work depends on a size that is not there");
}

void CommandVerifier::checkSuper(const SuperT &super,
                                 const std::string &where) {
  require(!initializing, where, "is a super kernel before any call");
  require(!super.name.empty(), where, "has no name");
  require(!super.launches.empty() &&
              super.locations.size() == super.launches.size(),
          where, "has no launch, or not a location for each");
  require(super.launches.size() <= superLimit, where, "has too many launches");
  require(super.streams >= 1 &&
              static_cast<size_t>(super.streams) <= streamLimit,
          where, "has a bad number of streams");
  for (size_t i = 0; i < super.launches.size() && !failed(); ++i) {
    const LaunchT &launch = *super.launches[i];
    std::string member = where + " launch " + std::to_string(i) + ",";
    int location = super.locations[i];
    checkLaunch(launch, member);
    require(location == -1 || within(location, program.locations), member,
            "has a location that is not there");
  }
  for (const std::unique_ptr<OrderT> &order : super.orders)
    checkMembers(*order, super.launches.size(), where);
}

/// Checks that an order's launches exist, and that each of `before` comes
/// earlier than each of `after`.
void CommandVerifier::checkMembers(const OrderT &order, size_t launches,
                                   const std::string &where) {
  auto [first, last] =
      std::minmax_element(order.before.begin(), order.before.end());
  auto least = std::min_element(order.after.begin(), order.after.end());
  auto most = std::max_element(order.after.begin(), order.after.end());
  require(!order.before.empty() && !order.after.empty() && *first >= 0 &&
              *last < *least && static_cast<size_t>(*most) < launches,
          where,
          "orders launches that do not exist, or that run in another order");
}

void CommandVerifier::checkTensor(const ArgumentT &argument,
                                  const std::string &where) {
  argument.written ? checkWrite(argument.buffer, where)
                   : checkRead(argument.buffer, where);
  if (failed())
    return;
  const BufferT &buffer = *program.buffers[argument.buffer];
  require(!initializing || buffer.kind != BufferKind::Input, where,
          "uses a call's memory before any call");
  require(!argument.written || buffer.kind != BufferKind::External, where,
          "writes to memory of another operator");
  if (argument.view)
    checkView(*argument.view, buffer, where);
}

/// Checks a view of known sizes. The runtime checks the others for the sizes of
/// each call.
void CommandVerifier::checkView(const ViewT &view, const BufferT &buffer,
                                const std::string &where) {
  require(view.offset && view.shape.size() == view.strides.size(), where,
          "has a view without an offset, or not a stride for each size");
  require(buffer.kind != BufferKind::External, where,
          "has a view of memory of another operator");
  if (failed())
    return;
  refusals.checkSize(*view.offset, where);
  refusals.checkSizes(view.shape, where);
  refusals.checkSizes(view.strides, where);
  std::optional<Extent> whole = staticExtent(buffer);
  std::optional<Extent> part =
      staticExtent(buffer.dtype, view.shape, view.strides);
  bool known = whole && part && isStatic(*view.offset);
  require(!initializing || known, where, "needs a size before any call");
  if (!known || failed())
    return;
  require(liesWithin(*part, view.offset->value(), *whole,
                     itemSize(static_cast<anabranch::DType>(buffer.dtype))),
          where, "has a view that ends past its buffer");
}

void CommandVerifier::checkArgument(const ArgumentT &argument, int depth,
                                    const std::string &where) {
  require(argument.kind >= ArgKind::MIN && argument.kind <= ArgKind::MAX, where,
          "has an argument of unknown kind");
  require(depth < nestingLimit, where, "nests its lists too deeply");
  if (failed())
    return;
  switch (argument.kind) {
  case ArgKind::Tensor:
    return checkTensor(argument, where);
  case ArgKind::Int:
  case ArgKind::Layout:
  case ArgKind::MemoryFormat:
    require(argument.int_value != nullptr, where,
            "has an int argument without a value");
    if (!failed()) {
      refusals.checkSize(*argument.int_value, where);
      require(!initializing || isStatic(*argument.int_value), where,
              "needs a size before any call");
    }
    return;
  case ArgKind::Float:
    if (!argument.int_value)
      return;
    refusals.checkSize(*argument.int_value, where);
    return require(!initializing && !isStatic(*argument.int_value), where,
                   "has a float of sizes that are known");
  case ArgKind::Item:
    return require(false, where, "passes an item of a tensor to an operator");
  case ArgKind::DType:
    return require(argument.dtype_value >= DType::MIN &&
                       argument.dtype_value <= DType::MAX,
                   where, "has an unknown dtype");
  case ArgKind::List:
    for (const auto &item : argument.items)
      checkArgument(*item, depth + 1, where);
    return;
  default:
    return;
  }
}

void CommandVerifier::checkCall(const CallT &call, const std::string &where) {
  calls |= !isRuntimeOperator(call.op);
  require(!call.op.empty(), where, "calls an operator without a name");
  for (const auto &argument : call.arguments)
    checkArgument(*argument, 0, where);
  for (int result : call.results) {
    if (result == -1)
      continue;
    checkWrite(result, where);
    if (failed())
      return;
    require(program.buffers[result]->kind == BufferKind::External &&
                !produced[result],
            where, "has a result whose memory is not its own");
    produced[result] = true;
  }
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

void RegionCall::pass(const std::vector<std::unique_ptr<ArgumentT>> &list,
                      bool sliced) {
  for (const auto &argument : list)
    arguments.push_back(argument.get());
  slicedArguments.resize(arguments.size(), sliced);
}

void RegionCall::take(const std::vector<int> &buffers, bool sliced) {
  results.insert(results.end(), buffers.begin(), buffers.end());
  slicedResults.resize(results.size(), sliced);
}

/// Whether two types have one dtype, one rank, and the same static sizes; the
/// run decides a size of -1. A slice of `whole` has all its dimensions but the
/// first.
static bool sameType(DType whole, const std::vector<Size> &wholeShape,
                     DType part, const std::vector<Size> &partShape,
                     bool isSliced) {
  size_t skipped = isSliced ? 1 : 0;
  if (whole != part || wholeShape.size() != partShape.size() + skipped)
    return false;
  for (size_t i = 0; i < partShape.size(); ++i) {
    const Size &size = wholeShape[i + skipped];
    if (isStatic(size) && isStatic(partShape[i]) && size.value() >= 0 &&
        partShape[i].value() >= 0 && size.value() != partShape[i].value())
      return false;
  }
  return true;
}

/// Checks a tensor whose only element a region gets as a number.
void CommandVerifier::checkItem(int number, const std::string &where) {
  checkRead(number, where);
  if (failed())
    return;
  const BufferT &buffer = *program.buffers[number];
  bool isNumber = (buffer.dtype >= DType::Bool && buffer.dtype <= DType::I64) ||
                  buffer.dtype == DType::F64;
  int64_t elements = 1;
  for (const Size &size : buffer.shape)
    elements = isStatic(size) ? elements * size.value() : 0;
  require(isNumber && elements == 1, where,
          "passes an item of what is not one number");
}

/// Checks an argument of a region: an int for an int, a contiguous tensor for a
/// contiguous tensor. The region may write it if `mayWrite`.
void CommandVerifier::checkPassed(const ArgumentT &argument,
                                  const InputT &input, bool isSliced,
                                  bool mayWrite, const std::string &where) {
  require(!argument.written || argument.kind == ArgKind::Tensor, where,
          "writes an argument that is no tensor");
  if (argument.kind == ArgKind::Item && input.is_scalar)
    return checkItem(argument.buffer, where);
  checkArgument(argument, 0, where);
  require(argument.kind == (input.is_scalar ? ArgKind::Int : ArgKind::Tensor),
          where, "passes a region an argument of another kind");
  require(input.mutated == (mayWrite && argument.written) && !argument.view,
          where, "runs a region that writes an argument");
  if (failed() || input.is_scalar)
    return;
  const BufferT &buffer = *program.buffers[argument.buffer];
  require(sameType(buffer.dtype, buffer.shape, input.dtype, input.shape,
                   isSliced) &&
              buffer.strides.empty() && input.strides.empty(),
          where, "passes a region an argument of another type");
}

void CommandVerifier::checkResult(int result, const ProgramT &region,
                                  const OutputT &output, bool isSliced,
                                  const std::string &where) {
  checkWrite(result, where);
  if (failed())
    return;
  const BufferT &buffer = *program.buffers[result];
  bool isMade = buffer.kind == BufferKind::External;
  require(output.kind == OutputKind::Tensor ||
              (isMade && output.kind == OutputKind::External),
          where, "runs a region whose result is no memory of the program");
  if (failed())
    return;
  const BufferT &made = *region.buffers[output.buffer];
  require(
      sameType(buffer.dtype, buffer.shape, made.dtype, made.shape, isSliced) &&
          buffer.strides.empty() && made.strides.empty(),
      where, "has a result of another type than its region");
}

/// The region has been checked as a program before.
void CommandVerifier::checkRegion(const RegionCall &call,
                                  const std::string &where) {
  require(within(call.region, regions.all) &&
              static_cast<size_t>(call.region) >= regions.first,
          where, "runs a region that is not there");
  if (failed())
    return;
  const ProgramT &region = *regions.all[call.region];
  require(region.inputs.size() == call.arguments.size() &&
              region.outputs.size() == call.results.size(),
          where, "runs a region with other arguments or results");
  for (size_t i = 0; i < call.arguments.size() && !failed(); ++i)
    checkPassed(*call.arguments[i], *region.inputs[i], call.slicedArguments[i],
                call.updates, where);
  for (size_t i = 0; i < call.results.size() && !failed(); ++i)
    checkResult(call.results[i], region, *region.outputs[i],
                call.slicedResults[i], where);
}

/// Notes the results that a branch's regions make, once for all its regions.
void CommandVerifier::noteMade(const std::vector<int> &results,
                               const std::string &where) {
  for (int result : results) {
    if (program.buffers[result]->kind != BufferKind::External)
      continue;
    require(!produced[result], where,
            "has a result whose memory is not its own");
    produced[result] = true;
  }
}

/// The trips of a loop write memory of the program.
void CommandVerifier::checkPlaced(const std::vector<int> &results,
                                  const std::string &where) {
  for (int result : results)
    require(program.buffers[result]->kind != BufferKind::External, where,
            "loops into memory that is not the program's");
}

void CommandVerifier::checkPredicate(const ArgumentT &predicate,
                                     const std::string &where) {
  checkArgument(predicate, 0, where);
  require(predicate.kind == ArgKind::Int || predicate.kind == ArgKind::Tensor,
          where, "has no predicate");
  if (!failed() && predicate.kind == ArgKind::Tensor)
    checkFlag(predicate.buffer, where);
}

void CommandVerifier::checkFlag(int number, const std::string &where) {
  const BufferT &buffer = *program.buffers[number];
  std::optional<Extent> extent = staticExtent(buffer);
  require(buffer.dtype == DType::Bool && extent && extent->fits &&
              extent->end == 1,
          where, "has a predicate that is not one bool");
}

void CommandVerifier::checkBranch(const BranchT &branch,
                                  const std::string &where) {
  require(!initializing, where, "branches before any call");
  require(branch.regions.size() == (branch.predicate ? 2 : 1), where,
          "is no choice between two regions");
  if (failed())
    return;
  if (branch.predicate)
    checkPredicate(*branch.predicate, where);
  for (int region : branch.regions) {
    RegionCall call(region);
    call.updates = true;
    call.pass(branch.arguments);
    call.take(branch.results);
    if (!failed())
      checkRegion(call, where);
  }
  if (!failed())
    noteMade(branch.results, where);
}

/// Only what a loop carries may be written.
void CommandVerifier::checkUnwritten(
    const std::vector<std::unique_ptr<ArgumentT>> &arguments,
    const std::string &where) {
  for (const auto &argument : arguments)
    require(!argument->written, where, "runs a region that writes an argument");
}

/// Each trip gets what the trip before it made, in the results or in the spare
/// buffers. So both have the types of the first trip's values.
void CommandVerifier::checkTrips(const LoopT &loop, const std::string &where) {
  for (const std::vector<int> *made : {&loop.results, &loop.spare}) {
    RegionCall call(loop.body);
    call.updates = true;
    call.pass(loop.carried);
    call.pass(loop.scanned, /*sliced=*/true);
    call.pass(loop.arguments);
    call.take(*made);
    call.take(loop.stacked, /*sliced=*/true);
    if (!failed())
      checkRegion(call, where);
    const int *next = made->data();
    for (size_t i = 0; i < loop.carried.size() && !failed(); ++i) {
      if (loop.carried[i]->written)
        continue;
      const InputT &input = *regions.all[loop.body]->inputs[i];
      const BufferT &buffer = *program.buffers[*next++];
      require(sameType(buffer.dtype, buffer.shape, input.dtype, input.shape,
                       /*isSliced=*/false),
              where, "carries a value that changes its type");
    }
  }
}

void CommandVerifier::checkCondition(const LoopT &loop,
                                     const std::string &where) {
  RegionCall call(loop.condition);
  call.pass(loop.carried);
  call.pass(loop.arguments);
  call.take({loop.predicate});
  checkRegion(call, where);
  if (!failed())
    checkFlag(loop.predicate, where);
}

void CommandVerifier::checkLoop(const LoopT &loop, const std::string &where) {
  require(!initializing, where, "loops before any call");
  require((loop.condition >= 0) != (loop.trips != nullptr), where,
          "needs a condition or a number of trips");
  require(loop.condition < 0 || (loop.scanned.empty() && loop.stacked.empty()),
          where, "scans as long as a condition holds");
  size_t made =
      std::count_if(loop.carried.begin(), loop.carried.end(),
                    [](const auto &carried) { return !carried->written; });
  require(loop.results.size() == made && loop.spare.size() == made, where,
          "lacks memory for what it carries");
  checkUnwritten(loop.scanned, where);
  checkUnwritten(loop.arguments, where);
  if (failed())
    return;
  if (loop.trips)
    refusals.checkSize(*loop.trips, where);
  checkTrips(loop, where);
  for (const std::vector<int> *made : {&loop.results, &loop.stacked})
    if (!failed())
      checkPlaced(*made, where);
  if (loop.condition >= 0 && !failed())
    checkCondition(loop, where);
}

//===----------------------------------------------------------------------===//
// All commands
//===----------------------------------------------------------------------===//

void CommandVerifier::checkStep(const StepKind &step, const ActionUnion &action,
                                const std::string &where) {
  step.visit(action, [&](int buffer, bool writes) {
    writes ? checkWrite(buffer, where) : checkRead(buffer, where);
    if (!failed())
      checkSized(buffer, where);
  });
  if (failed())
    return;
  const char *complaint =
      step.complain ? step.complain(program, action) : nullptr;
  require(!complaint, where, complaint);
}

void CommandVerifier::checkRecord(int event, const std::string &where) {
  require(within(event, recorded), where, "names an event that is not there");
  if (failed())
    return;
  require(!recorded[event], where, "records an event for the second time");
  recorded[event] = true;
}

void CommandVerifier::check(const ActionUnion &action,
                            const std::string &where) {
  if (const LaunchT *launch = action.AsLaunch())
    return checkLaunch(*launch, where);
  if (const SuperT *super = action.AsSuper())
    return checkSuper(*super, where);
  if (const CallT *call = action.AsCall())
    return checkCall(*call, where);
  if (const BranchT *branch = action.AsBranch())
    return checkBranch(*branch, where);
  if (const LoopT *loop = action.AsLoop())
    return checkLoop(*loop, where);
  if (const StepKind *step = stepKindOf(action))
    return checkStep(*step, action, where);
  if (const RecordT *record = action.AsRecord())
    return checkRecord(record->event, where);
  if (const WaitT *wait = action.AsWait())
    return require(within(wait->event, recorded), where,
                   "names an event that is not there");
  require(false, where, "has no action");
}

} // namespace anabranch::package
