//===- SharePersistent.cpp - prepared weights of several programs ---------===//
// SPDX-License-Identifier: Apache-2.0
//
// The text of a buffer describes its contents: a constant's name, the input of
// a program, or the command that makes it and the texts of the buffers which
// that command reads. Buffers of equal text hold equal bytes.

#include "schedule/serialize/SharePersistent.h"

#include "anabranch/KernelABI.h"
#include "package/verify/Programs.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"
#include <map>
#include <set>
#include <string>

namespace anabranch {
namespace schedule {
namespace {

using package::BufferKind;
using package::ProgramT;
using package::Size;

std::string textOf(const std::vector<Size> &sizes) {
  std::string text = "[";
  for (const Size &size : sizes)
    text += std::to_string(size.value()) + ",";
  return text + "]";
}

/// The place of a buffer's bytes. Buffers of one place are one memory.
using Place = std::pair<BufferKind, int64_t>;

Place placeOf(const package::BufferT &buffer) {
  return {buffer.kind, buffer.offset ? buffer.offset->value() : 0};
}

class Sharer {
public:
  void add(ProgramT &program);
  int64_t bytes() const { return end; }

private:
  std::string textOfBuffer(const ProgramT &program, int number);
  bool describe(ProgramT &program);
  void place(ProgramT &program);
  void dropMade(ProgramT &program);

  llvm::StringMap<int64_t> offsets; ///< of persistent memory, by its text
  int64_t end = 0;
  int programs = 0;                   ///< so far
  std::map<Place, std::string> texts; ///< of the program at hand
  std::set<Place> present;            ///< its places that an earlier one makes
};

std::string Sharer::textOfBuffer(const ProgramT &program, int number) {
  const package::BufferT &buffer = *program.buffers[number];
  std::string layout = std::to_string(static_cast<int>(buffer.dtype)) +
                       textOf(buffer.shape) + textOf(buffer.strides);
  if (buffer.kind == BufferKind::Constant)
    return "constant " + buffer.name + layout;
  if (buffer.kind == BufferKind::Input)
    return "input " + std::to_string(number) + " of program " +
           std::to_string(programs) + layout;
  auto found = texts.find(placeOf(buffer));
  return (found == texts.end() ? "nothing" : found->second) + layout;
}

/// Collects the texts of all buffers that `initialize` makes. False if
/// `initialize` holds anything but launches, or writes a place twice.
bool Sharer::describe(ProgramT &program) {
  texts.clear();
  for (const auto &stream : program.initialize)
    for (const auto &command : stream->commands) {
      const package::LaunchT *launch = command->action.AsLaunch();
      if (!launch || program.initialize.size() != 1)
        return false;
      std::string text =
          "(" + program.kernels[launch->kernel]->name + textOf(launch->sizes);
      for (int i = 0; i < launch->input_count; ++i)
        text += " " + textOfBuffer(program, launch->buffers[i]);
      for (size_t i = launch->input_count; i < launch->buffers.size(); ++i)
        if (!texts
                 .try_emplace(placeOf(*program.buffers[launch->buffers[i]]),
                              text + ")" + std::to_string(i))
                 .second)
          return false;
    }
  return true;
}

/// Moves the persistent buffers into the memory that all programs share.
void Sharer::place(ProgramT &program) {
  present.clear();
  std::map<int64_t, int64_t> sizes, moved;
  for (const auto &buffer : program.buffers)
    if (buffer->kind == BufferKind::Persistent) {
      int64_t &size = sizes[buffer->offset->value()];
      size = std::max(size, buffer->bytes->value());
    }
  for (auto [offset, size] : sizes) {
    auto text = texts.find({BufferKind::Persistent, offset});
    std::string key = text == texts.end() ? "" : text->second;
    auto known = offsets.find(key);
    if (!key.empty() && known != offsets.end()) {
      moved[offset] = known->second;
      present.insert({BufferKind::Persistent, offset});
      continue;
    }
    moved[offset] = end;
    if (!key.empty())
      offsets[key] = end;
    end += llvm::alignTo(size, ANABRANCH_BUFFER_ALIGNMENT);
  }
  dropMade(program);
  for (const auto &buffer : program.buffers)
    if (buffer->kind == BufferKind::Persistent)
      *buffer->offset = Size(moved[buffer->offset->value()], -1);
}

/// Drops commands whose results exist already, and commands that serve only
/// those.
void Sharer::dropMade(ProgramT &program) {
  if (present.empty() || program.initialize.size() != 1)
    return;
  auto &commands = program.initialize.front()->commands;
  std::set<Place> wanted;
  std::vector<bool> kept(commands.size());
  for (size_t i = commands.size(); i-- > 0;) {
    const package::LaunchT &launch = *commands[i]->action.AsLaunch();
    auto at = [&](size_t operand) {
      return placeOf(*program.buffers[launch.buffers[operand]]);
    };
    for (size_t o = launch.input_count; o < launch.buffers.size(); ++o) {
      Place place = at(o);
      bool lasts = place.first == BufferKind::Persistent;
      kept[i] =
          kept[i] || wanted.count(place) || (lasts && !present.count(place));
    }
    if (!kept[i])
      continue;
    for (size_t o = launch.input_count; o < launch.buffers.size(); ++o)
      if (at(o).first == BufferKind::Arena)
        wanted.erase(at(o));
    for (int o = 0; o < launch.input_count; ++o)
      if (at(o).first == BufferKind::Arena)
        wanted.insert(at(o));
  }
  size_t next = 0;
  llvm::erase_if(commands, [&](const auto &) { return !kept[next++]; });
}

void Sharer::add(ProgramT &program) {
  ++programs;
  if (!describe(program))
    texts.clear();
  place(program);
}

} // namespace

void sharePersistent(package::ProgramT &program) {
  std::vector<package::ProgramT *> all = package::programsOf(program);
  if (all.size() == 1)
    return;
  Sharer sharer;
  for (package::ProgramT *each : all)
    sharer.add(*each);
  for (package::ProgramT *each : all)
    each->persistent_bytes = std::make_unique<Size>(sharer.bytes(), -1);
}

} // namespace schedule
} // namespace anabranch
