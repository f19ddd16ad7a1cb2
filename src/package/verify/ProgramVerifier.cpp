//===- ProgramVerifier.cpp - is this program sound? -----------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "package/verify/ProgramVerifier.h"

#include "anabranch/KernelABI.h"
#include "anabranch/Tensor.h"
#include "package/verify/Extent.h"
#include "package/verify/SerialOrder.h"
#include "package/verify/VerifyRaces.h"

#include <algorithm>
#include <optional>

namespace anabranch::package {

namespace {

constexpr int tableLimit = 1 << 20;
constexpr size_t rankLimit = 64;
constexpr int nestingLimit = 8;
constexpr size_t tagLimit = 4096;

bool isStatic(const Size &size) { return size.slot() < 0; }

/// The checks, one method per table. The first failure is kept and says where.
class Checker {
public:
  explicit Checker(const ProgramT &p) : p(p) {}
  Status run();

private:
  void require(bool holds, const std::string &where, const char *what) {
    if (!holds && failure.ok())
      failure = Status(StatusCode::BadPackage,
                       "program is refused: " + where + " " + what);
  }
  bool failed() const { return !failure.ok(); }

  template <typename List> static bool within(int index, const List &list) {
    return index >= 0 && static_cast<size_t>(index) < list.size();
  }

  void checkSize(const Size &size, const std::string &where);
  void checkSizes(const std::vector<Size> &sizes, const std::string &where);
  void checkType(DType dtype, const std::vector<Size> &shape,
                 const std::vector<Size> &strides, const std::string &where);
  void checkSlots();
  void checkInput(size_t number);
  void checkOutput(size_t number);
  void checkBuffer(size_t number);
  void checkPlaced(const BufferT &buffer, const Size *limit,
                   const std::string &where);
  void checkInside(const std::optional<Extent> &part,
                   const std::optional<Extent> &all, const std::string &where);
  void checkStreams(const Streams &streams, bool initialize,
                    const std::string &name);
  void checkAction(const ActionUnion &action, const std::string &where);
  void checkLaunch(const LaunchT &launch, const std::string &where);
  void checkWork(const LaunchT &launch, const std::string &where);
  void checkSuper(const SuperT &super, const std::string &where);
  void checkMembers(const OrderT &order, size_t launches,
                    const std::string &where);
  void checkFixed(int buffer, const std::string &where);
  void checkCall(const CallT &call, const std::string &where);
  void checkArgument(const ArgumentT &argument, int depth,
                     const std::string &where);
  void checkCopy(const CopyT &copy, const std::string &where);
  void checkRecord(int event, const std::string &where);
  void checkRead(int buffer, const std::string &where);
  void checkWrite(int buffer, const std::string &where);
  void checkOrder(const Streams &streams);

  const ProgramT &p;
  Status failure;
  bool initializing = false;
  bool calls = false;
  std::vector<bool> recorded;
  std::vector<bool> produced; ///< per buffer: result of an earlier Call
};

void Checker::checkSize(const Size &size, const std::string &where) {
  require(size.slot() < p.slots, where, "names a size slot that is not there");
}

void Checker::checkSizes(const std::vector<Size> &sizes,
                         const std::string &where) {
  for (const Size &size : sizes)
    checkSize(size, where);
}

void Checker::checkType(DType dtype, const std::vector<Size> &shape,
                        const std::vector<Size> &strides,
                        const std::string &where) {
  require(dtype >= DType::MIN && dtype <= DType::MAX, where,
          "has an unknown dtype");
  require(shape.size() <= rankLimit, where, "has too many dimensions");
  require(strides.empty() || strides.size() == shape.size(), where,
          "has strides that do not fit its shape");
  checkSizes(shape, where);
  checkSizes(strides, where);
  for (const Size &size : shape)
    require(!isStatic(size) || size.value() >= 0, where,
            "has a negative dimension");
}

void Checker::checkSlots() {
  std::vector<bool> known(static_cast<size_t>(p.slots), false);
  for (const SlotSource &source : p.slot_sources) {
    require(within(source.slot(), known) && within(source.input(), p.inputs),
            "slot_sources", "is out of range");
    if (failed())
      return;
    const InputT &input = *p.inputs[source.input()];
    require(!input.is_scalar && within(source.dim(), input.shape),
            "slot_sources", "names a dimension that is not there");
    known[source.slot()] = true;
  }
  for (const auto &input : p.inputs)
    if (input->is_scalar && input->scalar_slot >= 0) {
      require(within(input->scalar_slot, known), input->name,
              "fills a size slot that is not there");
      if (failed())
        return;
      known[input->scalar_slot] = true;
    }
  for (const SlotLimit &limit : p.slot_limits)
    require(within(limit.slot(), known) && known[limit.slot()], "slot_limits",
            "limits what no input defines");
  if (p.sizes_function.empty())
    for (bool slot : known)
      require(slot, "slots", "has an entry that nothing fills");
}

void Checker::checkInput(size_t number) {
  const InputT &input = *p.inputs[number];
  std::string where = "input " + std::to_string(number);
  if (!input.is_scalar)
    checkType(input.dtype, input.shape, input.strides, where);
}

void Checker::checkOutput(size_t number) {
  const OutputT &output = *p.outputs[number];
  std::string where = "output " + std::to_string(number);
  switch (output.kind) {
  case OutputKind::Tensor:
  case OutputKind::External: {
    require(within(output.buffer, p.buffers), where, "has no buffer");
    if (failed())
      return;
    const BufferT &buffer = *p.buffers[output.buffer];
    if (output.kind == OutputKind::Tensor)
      require(buffer.kind == BufferKind::Output &&
                  buffer.index == static_cast<int>(number),
              where, "has a buffer that is not its own");
    else
      require(buffer.kind == BufferKind::External, where,
              "has a buffer that no call makes");
    return;
  }
  case OutputKind::Alias:
    return require(within(output.index, p.inputs), where,
                   "is an input that is not there");
  case OutputKind::Scalar:
    require(output.scalar != nullptr, where, "has no value");
    return failed() ? void() : checkSize(*output.scalar, where);
  case OutputKind::None:
    return;
  }
  require(false, where, "has an unknown kind");
}

/// A buffer at an offset into the arena or the persistent memory.
void Checker::checkPlaced(const BufferT &buffer, const Size *limit,
                          const std::string &where) {
  require(buffer.offset && buffer.bytes, where, "has no place");
  require(limit != nullptr, where, "lies in memory that the program lacks");
  if (failed() || !isStatic(*buffer.offset))
    return;
  int64_t offset = buffer.offset->value(), end;
  require(offset >= 0 && offset % ANABRANCH_BUFFER_ALIGNMENT == 0, where,
          "has a bad offset");
  if (isStatic(*buffer.bytes))
    require(!__builtin_add_overflow(offset, buffer.bytes->value(), &end) &&
                (!isStatic(*limit) || end <= limit->value()),
            where, "reaches beyond its memory");
}

/// A view of a caller's tensor must stay inside it.
void Checker::checkInside(const std::optional<Extent> &part,
                          const std::optional<Extent> &all,
                          const std::string &where) {
  if (part && all)
    require(part->fits && all->fits && part->end <= all->end, where,
            "reaches beyond the tensor that it is a view of");
}

void Checker::checkBuffer(size_t number) {
  const BufferT &buffer = *p.buffers[number];
  std::string where = "buffer " + std::to_string(number);
  checkType(buffer.dtype, buffer.shape, buffer.strides, where);
  if (buffer.offset)
    checkSize(*buffer.offset, where);
  if (buffer.bytes) {
    checkSize(*buffer.bytes, where);
    require(!isStatic(*buffer.bytes) || buffer.bytes->value() >= 0, where,
            "has a negative size");
  }
  if (failed())
    return;
  std::optional<Extent> extent = staticExtent(buffer);
  bool sized = buffer.bytes && isStatic(*buffer.bytes);
  if (extent &&
      (!extent->fits || (sized && extent->end > buffer.bytes->value())))
    require(false, where, "has elements beyond its bytes");
  switch (buffer.kind) {
  case BufferKind::Input: {
    require(within(buffer.index, p.inputs) &&
                !p.inputs[buffer.index]->is_scalar,
            where, "is an input that is not there");
    if (failed())
      return;
    const InputT &input = *p.inputs[buffer.index];
    return checkInside(
        extent, staticExtent(input.dtype, input.shape, input.strides), where);
  }
  case BufferKind::Output:
    require(within(buffer.index, p.outputs) &&
                p.outputs[buffer.index]->kind == OutputKind::Tensor &&
                within(p.outputs[buffer.index]->buffer, p.buffers),
            where, "is an output that is not there");
    if (failed())
      return;
    return checkInside(
        extent, staticExtent(*p.buffers[p.outputs[buffer.index]->buffer]),
        where);
  case BufferKind::Arena:
    return checkPlaced(buffer, p.arena_bytes.get(), where);
  case BufferKind::Persistent:
    require(buffer.bytes && isStatic(*buffer.bytes) && buffer.offset &&
                isStatic(*buffer.offset),
            where, "is persistent and has a dynamic place");
    return checkPlaced(buffer, p.persistent_bytes.get(), where);
  case BufferKind::Constant:
    require(!buffer.name.empty() && extent, where,
            "is a constant without a name or a static shape");
    return;
  case BufferKind::External:
    return;
  }
  require(false, where, "has an unknown kind");
}

void Checker::checkRead(int number, const std::string &where) {
  require(within(number, p.buffers), where, "uses a buffer that is not there");
  if (failed())
    return;
  const BufferT &buffer = *p.buffers[number];
  if (initializing)
    require(buffer.kind != BufferKind::Input &&
                buffer.kind != BufferKind::Output &&
                staticExtent(buffer).has_value(),
            where, "uses a call's memory before any call");
}

void Checker::checkWrite(int number, const std::string &where) {
  checkRead(number, where);
  if (failed())
    return;
  const BufferT &buffer = *p.buffers[number];
  require(buffer.kind != BufferKind::Constant, where, "writes to a constant");
  require(buffer.kind != BufferKind::Input || p.inputs[buffer.index]->mutated,
          where, "writes to an input that is not mutated");
  require(buffer.kind != BufferKind::Persistent || initializing, where,
          "writes to memory that all calls share");
}

void Checker::checkLaunch(const LaunchT &launch, const std::string &where) {
  require(within(launch.kernel, p.kernels), where,
          "launches a kernel that is not there");
  require(launch.input_count >= 0 &&
              static_cast<size_t>(launch.input_count) <= launch.buffers.size(),
          where, "has a bad number of inputs");
  require(launch.cores >= 0, where, "has a negative number of cores");
  checkSizes(launch.sizes, where);
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
}

/// The terms of the kernel's work are looked up among the launch's sizes.
void Checker::checkWork(const LaunchT &launch, const std::string &where) {
  const WorkT *work = p.kernels[launch.kernel]->work.get();
  if (!work)
    return;
  for (const auto *terms : {&work->flops, &work->bytes})
    for (const auto &term : *terms)
      for (int size : term->sizes)
        require(within(size, launch.sizes), where,
                "has a kernel whose work depends on a size that is not there");
}

/// The dependencies of tiles are found at load, in bytes.
void Checker::checkFixed(int number, const std::string &where) {
  const BufferT &buffer = *p.buffers[number];
  require(staticExtent(buffer) &&
              (!buffer.offset || isStatic(*buffer.offset)) &&
              (!buffer.bytes || isStatic(*buffer.bytes)),
          where, "has a buffer whose size is not known");
}

void Checker::checkSuper(const SuperT &super, const std::string &where) {
  require(!initializing, where, "is a super kernel before any call");
  require(!super.name.empty(), where, "has no name");
  require(!super.launches.empty() &&
              super.locations.size() == super.launches.size(),
          where, "has no launch, or not a location for each");
  require(super.launches.size() <= superLimit, where, "has too many launches");
  require(super.lanes >= 1 && static_cast<size_t>(super.lanes) <= streamLimit,
          where, "has a bad number of lanes");
  for (size_t i = 0; i < super.launches.size() && !failed(); ++i) {
    const LaunchT &launch = *super.launches[i];
    std::string member = where + " launch " + std::to_string(i) + ",";
    int location = super.locations[i];
    checkLaunch(launch, member);
    require(location == -1 || within(location, p.locations), member,
            "has a location that is not there");
    for (const Size &size : launch.sizes)
      require(isStatic(size), member, "has a size that is not known");
    for (size_t b = 0; b < launch.buffers.size() && !failed(); ++b)
      checkFixed(launch.buffers[b], member);
  }
  for (const std::unique_ptr<OrderT> &order : super.orders)
    checkMembers(*order, super.launches.size(), where);
}

/// The order of the launches is one of those that are asked for.
void Checker::checkMembers(const OrderT &order, size_t launches,
                           const std::string &where) {
  auto [first, last] =
      std::minmax_element(order.before.begin(), order.before.end());
  auto least = std::min_element(order.after.begin(), order.after.end());
  auto most = std::max_element(order.after.begin(), order.after.end());
  require(!order.before.empty() && !order.after.empty() && *first >= 0 &&
              *last < *least && static_cast<size_t>(*most) < launches,
          where, "orders launches that are not there, or not so");
}

void Checker::checkArgument(const ArgumentT &argument, int depth,
                            const std::string &where) {
  require(argument.kind >= ArgKind::MIN && argument.kind <= ArgKind::MAX, where,
          "has an argument of unknown kind");
  require(depth < nestingLimit, where, "has lists in lists in lists");
  if (failed())
    return;
  switch (argument.kind) {
  case ArgKind::Tensor:
    return checkRead(argument.buffer, where);
  case ArgKind::Int:
  case ArgKind::Layout:
  case ArgKind::MemoryFormat:
    require(argument.int_value != nullptr, where,
            "has an int argument without a value");
    if (!failed()) {
      checkSize(*argument.int_value, where);
      require(!initializing || isStatic(*argument.int_value), where,
              "needs a size before any call");
    }
    return;
  case ArgKind::Float:
    if (!argument.int_value)
      return;
    checkSize(*argument.int_value, where);
    return require(!initializing && !isStatic(*argument.int_value), where,
                   "has a float of sizes that are known");
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

void Checker::checkCall(const CallT &call, const std::string &where) {
  calls = true;
  require(!call.op.empty(), where, "calls an operator without a name");
  for (const auto &argument : call.arguments)
    checkArgument(*argument, 0, where);
  for (int result : call.results) {
    if (result == -1)
      continue;
    checkWrite(result, where);
    if (failed())
      return;
    require(p.buffers[result]->kind == BufferKind::External &&
                !produced[result],
            where, "has a result that is not its own");
    produced[result] = true;
  }
}

void Checker::checkCopy(const CopyT &copy, const std::string &where) {
  checkRead(copy.source, where);
  checkWrite(copy.destination, where);
  if (failed())
    return;
  const BufferT &from = *p.buffers[copy.source];
  const BufferT &to = *p.buffers[copy.destination];
  bool same = from.dtype == to.dtype && from.shape.size() == to.shape.size();
  for (size_t i = 0; same && i < from.shape.size(); ++i)
    if (isStatic(from.shape[i]) && isStatic(to.shape[i]))
      same = from.shape[i].value() == to.shape[i].value();
  require(same, where, "copies between different types");
}

void Checker::checkRecord(int event, const std::string &where) {
  require(within(event, recorded), where, "names an event that is not there");
  if (failed())
    return;
  require(!recorded[event], where, "records an event for the second time");
  recorded[event] = true;
}

void Checker::checkAction(const ActionUnion &action, const std::string &where) {
  if (const LaunchT *launch = action.AsLaunch())
    return checkLaunch(*launch, where);
  if (const SuperT *super = action.AsSuper())
    return checkSuper(*super, where);
  if (const CallT *call = action.AsCall())
    return checkCall(*call, where);
  if (const CopyT *copy = action.AsCopy())
    return checkCopy(*copy, where);
  if (const RecordT *record = action.AsRecord())
    return checkRecord(record->event, where);
  if (const WaitT *wait = action.AsWait())
    return require(within(wait->event, recorded), where,
                   "names an event that is not there");
  require(false, where, "has no action");
}

void Checker::checkStreams(const Streams &streams, bool initialize,
                           const std::string &name) {
  initializing = initialize;
  require(streams.size() <= streamLimit, name, "has too many streams");
  recorded.assign(static_cast<size_t>(p.events), false);
  for (size_t s = 0; s < streams.size(); ++s)
    for (size_t c = 0; c < streams[s]->commands.size() && !failed(); ++c) {
      const CommandT &command = *streams[s]->commands[c];
      std::string where = name + "[" + std::to_string(s) + "], command " +
                          std::to_string(c) + ",";
      checkAction(command.action, where);
      require(command.location == -1 || within(command.location, p.locations),
              where, "has a location that is not there");
    }
  if (!failed())
    checkOrder(streams);
}

/// Events let every stream end, and nothing reads a call's result before the
/// call.
void Checker::checkOrder(const Streams &streams) {
  Expected<std::vector<CommandRef>> order = serialOrder(streams, p.events);
  if (!order) {
    failure = order.takeStatus();
    return;
  }
  std::vector<bool> made(p.buffers.size(), false);
  auto use = [&](int number) {
    require(p.buffers[number]->kind != BufferKind::External || made[number],
            "buffer " + std::to_string(number),
            "is used before the call that makes it");
  };
  for (CommandRef ref : *order) {
    const ActionUnion &action =
        streams[ref.stream]->commands[ref.command]->action;
    forEachAccess(action, [&](int number, bool) {
      if (!action.AsCall())
        use(number);
    });
    if (const CallT *call = action.AsCall()) {
      for (const auto &argument : call->arguments)
        forEachTensor(*argument, use);
      for (int result : call->results)
        if (result >= 0)
          made[result] = true;
    }
  }
  if (!initializing)
    for (const auto &output : p.outputs)
      if (output->kind == OutputKind::External)
        use(output->buffer);
}

Status Checker::run() {
  if (p.abi_version != ANABRANCH_KERNEL_ABI_VERSION)
    return Status(StatusCode::Unsupported,
                  "program was made for another kernel ABI");
  require(p.events >= 0 && p.events <= tableLimit, "events", "is out of range");
  require(p.slots >= 0 && p.slots <= tableLimit, "slots", "is out of range");
  for (const auto *tags : {&p.awaits, &p.records})
    require(tags->size() <= tagLimit, "events", "have too many tags");
  if (failed())
    return std::move(failure);
  if (p.arena_bytes)
    checkSize(*p.arena_bytes, "arena_bytes");
  require(!p.persistent_bytes || (isStatic(*p.persistent_bytes) &&
                                  p.persistent_bytes->value() >= 0),
          "persistent_bytes", "is not a size");
  for (size_t i = 0; i < p.inputs.size() && !failed(); ++i)
    checkInput(i);
  if (!failed())
    checkSlots();
  for (size_t i = 0; i < p.buffers.size() && !failed(); ++i)
    checkBuffer(i);
  for (size_t i = 0; i < p.outputs.size() && !failed(); ++i)
    checkOutput(i);
  for (const auto &kernel : p.kernels)
    require(!kernel->name.empty(), "a kernel", "has no name");
  produced.assign(p.buffers.size(), false);
  if (!failed())
    checkStreams(p.initialize, true, "initialize");
  if (!failed())
    checkStreams(p.streams, false, "streams");
  require(calls == p.needs_libtorch, "needs_libtorch",
          "contradicts the commands");
  if (failed())
    return std::move(failure);
  if (Status s = verifyRaces(p, p.initialize); !s.ok())
    return s;
  return verifyRaces(p, p.streams);
}

} // namespace

/// Whether a caller can't tell the two apart but by sizes.
static bool answersLike(const ProgramT &a, const ProgramT &b) {
  if (a.inputs.size() != b.inputs.size() ||
      a.outputs.size() != b.outputs.size())
    return false;
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    const InputT &x = *a.inputs[i], &y = *b.inputs[i];
    if (x.name != y.name || x.is_scalar != y.is_scalar || x.dtype != y.dtype ||
        x.shape.size() != y.shape.size() || x.mutated != y.mutated)
      return false;
  }
  return true;
}

static int64_t persistentOf(const ProgramT &program) {
  return program.persistent_bytes ? program.persistent_bytes->value() : 0;
}

/// Where results are cut that were computed of padded inputs.
static bool cutsRightly(const ProgramT &program) {
  for (const PaddedDim &cut : program.padded) {
    if (cut.output() < 0 || size_t(cut.output()) >= program.outputs.size() ||
        cut.input() < 0 || size_t(cut.input()) >= program.inputs.size())
      return false;
    const OutputT &output = *program.outputs[cut.output()];
    if (output.kind != OutputKind::Tensor)
      return false;
    size_t rank = program.buffers[output.buffer]->shape.size();
    if (cut.dim() < 0 || size_t(cut.dim()) >= rank || cut.input_dim() < 0 ||
        size_t(cut.input_dim()) >= program.inputs[cut.input()]->shape.size())
      return false;
  }
  return true;
}

Status verifyProgram(const ProgramT &program) {
  if (Status s = Checker(program).run(); !s.ok())
    return s;
  if (!cutsRightly(program))
    return Status(StatusCode::BadPackage,
                  "program is refused: padded is out of range");
  for (const auto &variant : program.variants) {
    if (!variant->variants.empty() || !answersLike(program, *variant) ||
        persistentOf(program) != persistentOf(*variant))
      return Status(StatusCode::BadPackage,
                    "program is refused: a variant does not fit it");
    if (Status s = Checker(*variant).run(); !s.ok())
      return s;
  }
  return {};
}

} // namespace anabranch::package
