//===- SerializeProgram.cpp - the program as the package stores it --------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/serialize/SerializeProgram.h"

#include "anabranch/KernelABI.h"
#include "ir/Anabranch.h"
#include "ir/Explain.h"
#include "ir/ResultDims.h"
#include "ir/WritingCall.h"
#include "package/verify/RuntimeOperator.h"
#include "schedule/cost/Work.h"
#include "schedule/fusion/Layouts.h"
#include "schedule/program/KernelTable.h"
#include "schedule/program/RegionCall.h"
#include "schedule/serialize/SharePersistent.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace anabranch {
namespace schedule {
namespace {

package::Size toSize(Attribute attr) {
  if (auto slot = dyn_cast<ir::SlotAttr>(attr))
    return package::Size(0, slot.getIndex());
  return package::Size(cast<IntegerAttr>(attr).getInt(), -1);
}

std::unique_ptr<package::Size> toSizePtr(Attribute attr) {
  return attr ? std::make_unique<package::Size>(toSize(attr)) : nullptr;
}

std::vector<package::Size> toSizes(ArrayAttr list) {
  std::vector<package::Size> sizes;
  if (list)
    for (Attribute size : list)
      sizes.push_back(toSize(size));
  return sizes;
}

std::vector<std::string> toStrings(ArrayAttr list) {
  std::vector<std::string> strings;
  if (list)
    for (auto text : list.getAsRange<StringAttr>())
      strings.push_back(text.getValue().str());
  return strings;
}

package::BufferKind toBufferKind(StringRef kind) {
  using package::BufferKind;
  if (kind == "input")
    return BufferKind::Input;
  if (kind == "output")
    return BufferKind::Output;
  if (kind == "arena")
    return BufferKind::Arena;
  if (kind == "persistent")
    return BufferKind::Persistent;
  return kind == "constant" ? BufferKind::Constant : BufferKind::External;
}

class Serializer {
public:
  Serializer(ModuleOp module, ir::ProgramOp op, package::ProgramT &result)
      : module(module), op(op), result(result) {}

  LogicalResult run() {
    result.abi_version = ANABRANCH_KERNEL_ABI_VERSION;
    result.name = op.getName().str();
    result.slots = op.getSlots();
    if (op.getSizesFunction())
      result.sizes_function = op.getSizesFunction()->str();
    result.arena_bytes = toSizePtr(op.getArenaBytesAttr());
    result.persistent_bytes = toSizePtr(op.getPersistentBytesAttr());
    result.events = op.getEvents();
    result.awaits = toStrings(op.getAwaitsAttr());
    result.records = toStrings(op.getRecordsAttr());
    for (Operation &child : op.getBody().front())
      if (failed(add(child)))
        return failure();
    return success();
  }

private:
  LogicalResult add(Operation &child) {
    if (auto input = dyn_cast<ir::InputOp>(child))
      return addInput(input);
    if (auto limit = dyn_cast<ir::LimitOp>(child))
      return addLimit(limit);
    if (auto buffer = dyn_cast<ir::BufferOp>(child))
      return addBuffer(buffer);
    if (auto stream = dyn_cast<ir::StreamOp>(child))
      return addStream(stream);
    return addOutput(cast<ir::OutputOp>(child));
  }

  LogicalResult setDType(Operation *at, StringRef name, package::DType &dtype) {
    static constexpr StringLiteral names[] = {
        "bool", "u8",   "i8",       "i16",    "i32",        "i64",       "f16",
        "bf16", "f32",  "f64",      "u16",    "u32",        "u64",       "c32",
        "c64",  "c128", "f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz"};
    const auto *found = llvm::find(names, name);
    if (found == std::end(names))
      return at->emitOpError("has a dtype that no package can hold");
    dtype = static_cast<package::DType>(found - std::begin(names));
    return success();
  }

  LogicalResult addInput(ir::InputOp input) {
    auto made = std::make_unique<package::InputT>();
    int number = result.inputs.size();
    made->name = input.getName().str();
    if (failed(setDType(input, input.getDtype(), made->dtype)))
      return failure();
    made->shape = toSizes(input.getShape());
    made->strides = toSizes(input.getStridesAttr());
    made->mutated = input.getMutated();
    if (auto slot = input.getScalarSlot()) {
      made->is_scalar = true;
      made->scalar_slot = *slot;
    }
    for (int64_t dim : input.getDefines())
      result.slot_sources.emplace_back(made->shape[dim].slot(), number, dim);
    result.inputs.push_back(std::move(made));
    return success();
  }

  LogicalResult addLimit(ir::LimitOp limit) {
    auto message = limit->getAttrOfType<StringAttr>(ir::checkMessageAttr);
    if (!message) {
      result.slot_limits.emplace_back(
          cast<ir::SlotAttr>(limit.getSlot()).getIndex(), limit.getMin(),
          limit.getMax());
      return success();
    }
    auto check = std::make_unique<package::CheckT>();
    check->condition = toSizePtr(limit.getSlot());
    check->message = message.getValue().str();
    check->location = locationOf(limit.getLoc());
    result.checks.push_back(std::move(check));
    return success();
  }

  LogicalResult addBuffer(ir::BufferOp buffer) {
    auto made = std::make_unique<package::BufferT>();
    made->kind = toBufferKind(buffer.getKind());
    made->index = buffer.getIndex().value_or(-1);
    made->offset = toSizePtr(buffer.getOffsetAttr());
    made->bytes = toSizePtr(buffer.getBytesAttr());
    if (buffer.getName())
      made->name = buffer.getName()->str();
    if (failed(setDType(buffer, buffer.getDtype(), made->dtype)))
      return failure();
    made->shape = toSizes(buffer.getShape());
    made->strides = toSizes(buffer.getStridesAttr());
    numbers[buffer.getResult()] = result.buffers.size();
    result.buffers.push_back(std::move(made));
    return success();
  }

  LogicalResult addOutput(ir::OutputOp output) {
    auto made = std::make_unique<package::OutputT>();
    StringRef kind = output.getKind();
    using package::OutputKind;
    made->kind = kind == "tensor"     ? OutputKind::Tensor
                 : kind == "external" ? OutputKind::External
                 : kind == "alias"    ? OutputKind::Alias
                 : kind == "scalar"   ? OutputKind::Scalar
                                      : OutputKind::None;
    if (output.getBuffer())
      made->buffer = numbers.lookup(output.getBuffer());
    made->index = output.getInput().value_or(-1);
    made->scalar = toSizePtr(output.getScalarAttr());
    result.outputs.push_back(std::move(made));
    return success();
  }

  //===--- commands -------------------------------------------------------===//

  LogicalResult addStream(ir::StreamOp stream) {
    auto made = std::make_unique<package::StreamT>();
    made->name = stream.getName().str();
    made->priority = stream.getPriority();
    for (Operation &command : stream.getBody().front()) {
      auto entry = std::make_unique<package::CommandT>();
      entry->location = locationOf(command.getLoc());
      if (failed(setAction(command, entry->action)))
        return failure();
      made->commands.push_back(std::move(entry));
    }
    (stream.getInitialize() ? result.initialize : result.streams)
        .push_back(std::move(made));
    return success();
  }

  LogicalResult setAction(Operation &command, package::ActionUnion &action) {
    if (auto launch = dyn_cast<ir::LaunchOp>(command)) {
      action.Set(makeLaunch(launch));
    } else if (auto super = dyn_cast<ir::SuperOp>(command)) {
      action.Set(makeSuper(super));
    } else if (auto call = dyn_cast<ir::CallOp>(command);
               call && (call.getCallee() == branchCallee ||
                        call.getCallee() == callCallee)) {
      package::BranchT made;
      if (failed(makeBranch(call, made)))
        return failure();
      action.Set(std::move(made));
    } else if (call && call.getCallee() == loopCallee) {
      package::LoopT made;
      if (failed(makeLoop(call, made)))
        return failure();
      action.Set(std::move(made));
    } else if (call) {
      package::CallT made;
      if (failed(makeCall(call, made)))
        return failure();
      result.needs_libtorch |= !package::isRuntimeOperator(made.op);
      action.Set(std::move(made));
    } else if (auto copy = dyn_cast<ir::CopyOp>(command)) {
      package::CopyT made;
      made.source = numbers.lookup(copy.getSource());
      made.destination = numbers.lookup(copy.getDestination());
      action.Set(made);
    } else if (auto record = dyn_cast<ir::RecordOp>(command)) {
      package::RecordT made;
      made.event = record.getEvent();
      action.Set(made);
    } else if (auto wait = dyn_cast<ir::WaitOp>(command)) {
      package::WaitT made;
      made.event = wait.getEvent();
      action.Set(made);
    } else {
      return command.emitOpError("is no command");
    }
    return success();
  }

  package::LaunchT makeLaunch(ir::LaunchOp launch) {
    package::LaunchT made;
    auto [entry, isNew] =
        kernels.try_emplace(launch.getKernel(), result.kernels.size());
    if (isNew) {
      auto kernel = std::make_unique<package::KernelT>();
      kernel->name = launch.getKernel().str();
      if (auto body = module.lookupSymbol<func::FuncOp>(launch.getKernel()))
        kernel->work = workOf(body);
      result.kernels.push_back(std::move(kernel));
    }
    made.kernel = entry->second;
    for (Value operand : launch->getOperands())
      made.buffers.push_back(numbers.lookup(operand));
    made.input_count = launch.getReads().size();
    made.sizes = toSizes(launch.getSizes());
    made.cores = launch.getCores().value_or(0);
    return made;
  }

  package::SuperT makeSuper(ir::SuperOp super) {
    package::SuperT made;
    made.name = super.getName().str();
    made.streams = super.getStreams();
    for (auto launch : super.getBody().getOps<ir::LaunchOp>()) {
      made.launches.push_back(
          std::make_unique<package::LaunchT>(makeLaunch(launch)));
      made.locations.push_back(locationOf(launch.getLoc()));
    }
    if (super.getOrders())
      for (auto order : super.getOrdersAttr().getAsRange<ir::OrderAttr>()) {
        made.orders.push_back(std::make_unique<package::OrderT>());
        made.orders.back()->before.assign(order.getBefore().begin(),
                                          order.getBefore().end());
        made.orders.back()->after.assign(order.getAfter().begin(),
                                         order.getAfter().end());
      }
    return made;
  }

  LogicalResult makeCall(ir::CallOp call, package::CallT &made) {
    // "add.Tensor" is overload Tensor of aten::add.
    auto [name, overload] = call.getCallee().split('.');
    made.op = name.contains("::") ? name.str() : "aten::" + name.str();
    made.overload = overload.str();
    made.ordered = call.getOrdered();
    for (auto [name, value] : llvm::zip(call.getNames(), call.getArguments())) {
      made.arguments.push_back(std::make_unique<package::ArgumentT>());
      made.arguments.back()->name = cast<StringAttr>(name).getValue().str();
      if (failed(setArgument(call, value, *made.arguments.back())))
        return failure();
    }
    for (int64_t wanted : call.getWanted())
      made.results.push_back(
          wanted < 0 ? -1 : numbers.lookup(call.getWrites()[wanted]));
    return success();
  }

  /// An argument that the operator writes (ir/WritingCall.h).
  void setWritten(ir::CallOp call, DictionaryAttr value,
                  package::ArgumentT &argument) {
    argument.kind = package::ArgKind::Tensor;
    argument.written = true;
    argument.buffer =
        numbers.lookup(call.getWrites()[ir::writtenNumber(value)]);
    auto sizes = value.getAs<ArrayAttr>(ir::viewSizes);
    if (!sizes)
      return;
    argument.view = std::make_unique<package::ViewT>();
    argument.view->offset = toSizePtr(value.get(ir::viewOffset));
    argument.view->shape = toSizes(sizes);
    argument.view->strides = toSizes(value.getAs<ArrayAttr>(ir::viewStrides));
  }

  /// Takes an argument out of a call. The result is empty if there is none.
  static package::ArgumentT takeArgument(package::CallT &call, StringRef name) {
    for (std::unique_ptr<package::ArgumentT> &argument : call.arguments)
      if (argument->name == name)
        return std::move(*argument);
    return {};
  }

  /// The number of a region; -1 if the argument is none.
  static int regionIn(const package::ArgumentT &argument) {
    return argument.int_value ? static_cast<int>(argument.int_value->value())
                              : -1;
  }

  LogicalResult makeBranch(ir::CallOp call, package::BranchT &made) {
    package::CallT given;
    if (failed(makeCall(call, given)))
      return failure();
    made.arguments = takeArgument(given, "arguments").items;
    if (call.getCallee() == callCallee) {
      made.regions.push_back(regionIn(takeArgument(given, "region")));
      for (const auto &item : takeArgument(given, "items").items)
        made.arguments[item->int_value->value()]->kind = package::ArgKind::Item;
    } else {
      made.predicate = std::make_unique<package::ArgumentT>(
          takeArgument(given, "predicate"));
      for (const auto &region : takeArgument(given, "regions").items)
        made.regions.push_back(regionIn(*region));
    }
    made.results = std::move(given.results);
    made.ordered = given.ordered;
    return success();
  }

  /// `writes` of the call are the carried values that trips update, its
  /// results, spare buffers for the other carried values, and the condition's
  /// bool.
  LogicalResult makeLoop(ir::CallOp call, package::LoopT &made) {
    package::CallT given;
    if (failed(makeCall(call, given)))
      return failure();
    made.condition = regionIn(takeArgument(given, "condition"));
    made.body = regionIn(takeArgument(given, "body"));
    made.trips = takeArgument(given, "trips").int_value;
    made.carried = takeArgument(given, "carried").items;
    made.scanned = takeArgument(given, "scanned").items;
    made.arguments = takeArgument(given, "arguments").items;
    size_t turns = llvm::count_if(
        made.carried, [](const auto &carried) { return !carried->written; });
    size_t updated = made.carried.size() - turns;
    auto split = given.results.begin() + turns;
    made.results.assign(given.results.begin(), split);
    made.stacked.assign(split, given.results.end());
    auto spare = call.getWrites().drop_front(updated + given.results.size());
    for (Value buffer : spare.take_front(turns))
      made.spare.push_back(numbers.lookup(buffer));
    if (made.condition >= 0)
      made.predicate = numbers.lookup(spare.back());
    made.ordered = given.ordered;
    return success();
  }

  LogicalResult setArgument(ir::CallOp call, Attribute value,
                            package::ArgumentT &argument) {
    using package::ArgKind;
    if (isa<UnitAttr>(value)) {
      argument.kind = ArgKind::None;
    } else if (auto list = dyn_cast<ArrayAttr>(value)) {
      argument.kind = ArgKind::List;
      for (Attribute element : list) {
        argument.items.push_back(std::make_unique<package::ArgumentT>());
        if (failed(setArgument(call, element, *argument.items.back())))
          return failure();
      }
    } else if (auto ref = dyn_cast<ir::OperandRefAttr>(value)) {
      argument.kind = ArgKind::Tensor;
      argument.buffer = numbers.lookup(call.getReads()[ref.getIndex()]);
    } else if (auto written = dyn_cast<DictionaryAttr>(value)) {
      setWritten(call, written, argument);
    } else if (auto flag = dyn_cast<BoolAttr>(value)) {
      argument.kind = ArgKind::Bool;
      argument.bool_value = flag.getValue();
    } else if (isa<IntegerAttr, ir::SlotAttr>(value)) {
      argument.kind = ArgKind::Int;
      argument.int_value = toSizePtr(value);
    } else if (auto slot = dyn_cast<ir::RealSlotAttr>(value)) {
      argument.kind = ArgKind::Float;
      argument.int_value =
          toSizePtr(ir::SlotAttr::get(value.getContext(), slot.getIndex()));
    } else if (auto real = dyn_cast<FloatAttr>(value)) {
      argument.kind = ArgKind::Float;
      argument.float_value = real.getValueAsDouble();
    } else if (auto text = dyn_cast<StringAttr>(value)) {
      argument.kind = ArgKind::String;
      argument.string_value = text.getValue().str();
    } else if (auto type = dyn_cast<TypeAttr>(value)) {
      argument.kind = ArgKind::DType;
      return setDType(call, dtypeName(type.getValue()), argument.dtype_value);
    } else {
      return call.emitOpError("has an argument that no package can hold: ")
             << value;
    }
    return success();
  }

  int locationOf(Location location) {
    std::string operators = operatorNames(location, ", ", 16);
    FileLineColLoc file = ir::fileLocationOf(location);
    if (operators.empty() && !file)
      return -1;
    std::string name = file ? file.getFilename().str() : "";
    int line = file ? file.getLine() : 0;
    std::string key = name + ":" + std::to_string(line) + ":" + operators;
    auto [entry, isNew] = locations.try_emplace(key, result.locations.size());
    if (isNew) {
      auto made = std::make_unique<package::LocationT>();
      made->file = name;
      made->line = line;
      made->operators = operators;
      result.locations.push_back(std::move(made));
    }
    return entry->second;
  }

  ModuleOp module;
  ir::ProgramOp op;
  package::ProgramT &result;
  DenseMap<Value, int> numbers;
  llvm::StringMap<int> kernels, locations;
};

} // namespace

LogicalResult serializeProgram(ModuleOp module, package::ProgramT &result) {
  auto programs = module.getOps<ir::ProgramOp>();
  if (programs.empty())
    return emitError(module.getLoc(), "there is no program");
  if (failed(Serializer(module, *programs.begin(), result).run()))
    return failure();
  package::ProgramT *owner = &result;
  for (ir::ProgramOp program : llvm::drop_begin(programs)) {
    auto made = std::make_unique<package::ProgramT>();
    if (failed(Serializer(module, program, *made).run()))
      return failure();
    if (program->hasAttr(regionAttr)) {
      owner->regions.push_back(std::move(made));
      continue;
    }
    owner = made.get();
    result.variants.push_back(std::move(made));
  }
  sharePersistent(result);
  return success();
}

} // namespace schedule
} // namespace anabranch
