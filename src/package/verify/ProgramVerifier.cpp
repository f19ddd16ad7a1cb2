//===- ProgramVerifier.cpp - is this program sound? -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/verify/ProgramVerifier.h"

#include "anabranch/KernelABI.h"
#include "anabranch/Tensor.h"
#include "package/verify/CommandVerifier.h"
#include "package/verify/Extent.h"
#include "package/verify/SerialOrder.h"
#include "package/verify/VerifyRaces.h"

#include <algorithm>
#include <optional>

namespace anabranch::package {

namespace {

constexpr int tableLimit = 1 << 20;
constexpr size_t rankLimit = 64;
constexpr size_t tagLimit = 4096;

/// The checks of a program, with one method for each table.
class ProgramVerifier {
public:
  ProgramVerifier(const ProgramT &p, Regions regions)
      : p(p), refusals(p), commands(p, regions, refusals) {}
  Status run();

private:
  void require(bool holds, const std::string &where, const char *what) {
    refusals.require(holds, where, what);
  }
  bool failed() const { return refusals.any(); }

  void checkType(DType dtype, const std::vector<Size> &shape,
                 const std::vector<Size> &strides, const std::string &where,
                 int64_t least = 0);
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
  void checkOrder(const Streams &streams);

  const ProgramT &p;
  Refusals refusals;
  CommandVerifier commands;
};

void ProgramVerifier::checkType(DType dtype, const std::vector<Size> &shape,
                                const std::vector<Size> &strides,
                                const std::string &where, int64_t least) {
  require(dtype >= DType::MIN && dtype <= DType::MAX, where,
          "has an unknown dtype");
  require(shape.size() <= rankLimit, where, "has too many dimensions");
  require(strides.empty() || strides.size() == shape.size(), where,
          "has strides that do not fit its shape");
  refusals.checkSizes(shape, where);
  refusals.checkSizes(strides, where);
  for (const Size &size : shape)
    require(!isStatic(size) || size.value() >= least, where,
            "has a negative dimension");
}

void ProgramVerifier::checkSlots() {
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
            "limits a size that no input defines");
  if (p.sizes_function.empty())
    for (bool slot : known)
      require(slot, "slots", "has an entry that nothing fills");
}

void ProgramVerifier::checkInput(size_t number) {
  const InputT &input = *p.inputs[number];
  std::string where = "input " + std::to_string(number);
  if (!input.is_scalar)
    checkType(input.dtype, input.shape, input.strides, where);
}

void ProgramVerifier::checkOutput(size_t number) {
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
              where, "has a buffer whose memory is not its own");
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
    return failed() ? void() : refusals.checkSize(*output.scalar, where);
  case OutputKind::None:
    return;
  }
  require(false, where, "has an unknown kind");
}

/// Whether the distance from the first element to the last hangs on a slot.
static bool hasDynamicExtent(const BufferT &buffer) {
  bool dynamic = false;
  for (size_t d = 0; d < buffer.shape.size(); ++d) {
    const Size &size = buffer.shape[d];
    if (isStatic(size) && size.value() == 0)
      return false;
    bool moves = buffer.strides.empty() || !isStatic(buffer.strides[d]) ||
                 buffer.strides[d].value() != 0;
    dynamic |= !isStatic(size) && moves;
  }
  return dynamic;
}

/// Checks a buffer at an offset in the arena or in the persistent memory.
void ProgramVerifier::checkPlaced(const BufferT &buffer, const Size *limit,
                                  const std::string &where) {
  require(buffer.offset && buffer.bytes, where, "has no place");
  require(limit != nullptr, where, "lies in memory that the program lacks");
  require(failed() || !isStatic(*buffer.bytes) || !hasDynamicExtent(buffer),
          where, "grows with a size that its bytes do not count");
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

/// Checks that a view of a caller's tensor stays inside that tensor.
void ProgramVerifier::checkInside(const std::optional<Extent> &part,
                                  const std::optional<Extent> &all,
                                  const std::string &where) {
  if (part && all)
    require(part->fits && all->fits && part->end <= all->end, where,
            "reaches beyond the tensor that it is a view of");
}

void ProgramVerifier::checkBuffer(size_t number) {
  const BufferT &buffer = *p.buffers[number];
  std::string where = "buffer " + std::to_string(number);
  checkType(buffer.dtype, buffer.shape, buffer.strides, where,
            buffer.kind == BufferKind::External ? -1 : 0);
  if (buffer.offset)
    refusals.checkSize(*buffer.offset, where);
  if (buffer.bytes) {
    refusals.checkSize(*buffer.bytes, where);
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

void ProgramVerifier::checkStreams(const Streams &streams, bool initialize,
                                   const std::string &name) {
  require(streams.size() <= streamLimit, name, "has too many streams");
  commands.begin(initialize);
  for (size_t s = 0; s < streams.size(); ++s)
    for (size_t c = 0; c < streams[s]->commands.size() && !failed(); ++c) {
      const CommandT &command = *streams[s]->commands[c];
      std::string where = name + "[" + std::to_string(s) + "], command " +
                          std::to_string(c) + ",";
      commands.check(command.action, where);
      require(command.location == -1 || within(command.location, p.locations),
              where, "has a location that is not there");
    }
  if (!failed())
    checkOrder(streams);
}

/// Checks that events let every stream end, and that nothing reads a call's
/// result before the call.
void ProgramVerifier::checkOrder(const Streams &streams) {
  Expected<std::vector<CommandRef>> order = serialOrder(streams, p.events);
  if (!order) {
    refusals.refuse(order.takeStatus());
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
    const BranchT *branch = action.AsBranch();
    forEachAccess(action, [&](int number, bool writes) {
      if (!action.AsCall() && !(branch && writes))
        use(number);
    });
    if (branch)
      for (int result : branch->results)
        made[result] = true;
    if (const CallT *call = action.AsCall()) {
      for (const auto &argument : call->arguments)
        forEachTensor(*argument, use);
      for (int result : call->results)
        if (result >= 0)
          made[result] = true;
    }
  }
  if (!commands.isInitializing())
    for (const auto &output : p.outputs)
      if (output->kind == OutputKind::External)
        use(output->buffer);
}

Status ProgramVerifier::run() {
  if (p.abi_version != ANABRANCH_KERNEL_ABI_VERSION)
    return Status(StatusCode::Unsupported,
                  "program was made for another kernel ABI");
  require(p.events >= 0 && p.events <= tableLimit, "events", "is out of range");
  require(p.slots >= 0 && p.slots <= tableLimit, "slots", "is out of range");
  for (const auto *tags : {&p.awaits, &p.records})
    require(tags->size() <= tagLimit, "events", "have too many tags");
  if (failed())
    return refusals.take();
  if (p.arena_bytes)
    refusals.checkSize(*p.arena_bytes, "arena_bytes");
  require(!p.persistent_bytes || (isStatic(*p.persistent_bytes) &&
                                  p.persistent_bytes->value() >= 0),
          "persistent_bytes", "is not a size");
  for (size_t i = 0; i < p.inputs.size() && !failed(); ++i)
    checkInput(i);
  if (!failed())
    checkSlots();
  for (size_t i = 0; i < p.buffers.size() && !failed(); ++i)
    checkBuffer(i);
  for (const auto &check : p.checks) {
    require(check->condition &&
                (check->location == -1 || within(check->location, p.locations)),
            "a check", "has no condition, or no location");
    if (!failed())
      refusals.checkSize(*check->condition, "a check");
  }
  for (size_t i = 0; i < p.outputs.size() && !failed(); ++i)
    checkOutput(i);
  for (const auto &kernel : p.kernels)
    require(!kernel->name.empty(), "a kernel", "has no name");
  if (!failed())
    checkStreams(p.initialize, true, "initialize");
  if (!failed())
    checkStreams(p.streams, false, "streams");
  require(commands.hasCalls() == p.needs_libtorch, "needs_libtorch",
          "contradicts the commands");
  if (failed())
    return refusals.take();
  if (Status s = verifyRaces(p, p.initialize); !s.ok())
    return s;
  return verifyRaces(p, p.streams);
}

} // namespace

/// Whether the two programs differ, for a caller, in their sizes only.
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

/// Checks the places where results of padded inputs are cut.
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

/// Variants share persistent memory, and may not write it in different calls. A
/// region runs within a call, and initializes from no input.
static bool initializesAlike(const ProgramT &program) {
  if (program.variants.empty())
    return true;
  return !initializesFromInputs(program) &&
         std::none_of(program.variants.begin(), program.variants.end(),
                      [](const auto &variant) {
                        return initializesFromInputs(*variant);
                      });
}

/// Checks a program and its regions. Regions come first, the last before the
/// others, since a command relies on the regions that it runs.
static Status verifyWithRegions(const ProgramT &program) {
  const auto &regions = program.regions;
  if (regions.size() > regionLimit)
    return Status(StatusCode::BadPackage,
                  "program is refused: it has too many regions");
  for (size_t i = regions.size(); i-- > 0;) {
    const ProgramT &region = *regions[i];
    if (!region.regions.empty() || !region.variants.empty() ||
        !region.awaits.empty() || !region.records.empty() ||
        persistentOf(region) != persistentOf(program) ||
        initializesFromInputs(region))
      return Status(StatusCode::BadPackage, "program is refused: region " +
                                                std::to_string(i) +
                                                " does not fit it");
    if (Status s = ProgramVerifier(region, {regions, i + 1}).run(); !s.ok())
      return s;
  }
  return ProgramVerifier(program, {regions, 0}).run();
}

Status verifyProgram(const ProgramT &program) {
  if (Status s = verifyWithRegions(program); !s.ok())
    return s;
  if (!cutsRightly(program))
    return Status(StatusCode::BadPackage,
                  "program is refused: padded is out of range");
  for (const auto &variant : program.variants) {
    if (!variant->variants.empty() || !answersLike(program, *variant) ||
        persistentOf(program) != persistentOf(*variant))
      return Status(StatusCode::BadPackage,
                    "program is refused: a variant does not fit it");
    if (Status s = verifyWithRegions(*variant); !s.ok())
      return s;
  }
  if (!initializesAlike(program))
    return Status(
        StatusCode::BadPackage,
        "program is refused: one of several programs initializes with "
        "inputs");
  return {};
}

} // namespace anabranch::package
