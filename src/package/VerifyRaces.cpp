//===- VerifyRaces.cpp - are all conflicting accesses ordered? ------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "package/VerifyRaces.h"

#include "package/Extent.h"

#include <algorithm>
#include <map>

namespace anabranch::package {

namespace {

/// How far each stream is certain to have come: clock[s] commands of stream s.
using Clock = std::vector<int>;

/// One access of one command to a byte range of one memory.
struct Access {
  CommandRef at;
  bool writes;
  bool whole; ///< the range is not known: assume all of the memory
  int64_t begin, end;
};

/// Two buffers can overlap only inside one memory.
struct Memory {
  BufferKind kind;
  int index; ///< which input, output or call result; 0 for one-piece memories
  bool operator<(const Memory &o) const {
    return kind != o.kind ? kind < o.kind : index < o.index;
  }
};

Memory memoryOf(const BufferT &buffer, int number) {
  switch (buffer.kind) {
  case BufferKind::Input:
  case BufferKind::Output:
    return {buffer.kind, buffer.index};
  case BufferKind::External:
    return {buffer.kind, number};
  default:
    return {buffer.kind, 0};
  }
}

Access accessTo(const BufferT &buffer, CommandRef at, bool writes) {
  bool placed =
      buffer.kind == BufferKind::Arena || buffer.kind == BufferKind::Persistent;
  if (!placed || !buffer.offset || buffer.offset->slot() >= 0 ||
      !buffer.bytes || buffer.bytes->slot() >= 0)
    return {at, writes, true, 0, 0};
  int64_t begin = buffer.offset->value();
  return {at, writes, false, begin, begin + buffer.bytes->value()};
}

class RaceChecker {
public:
  RaceChecker(const ProgramT &program, const Streams &streams)
      : program(program), streams(streams) {}

  Status run() {
    Expected<std::vector<CommandRef>> order =
        serialOrder(streams, program.events);
    if (!order)
      return order.takeStatus();
    std::vector<Clock> reached(streams.size(), Clock(streams.size(), 0));
    std::vector<Clock> events(static_cast<size_t>(program.events));
    for (CommandRef ref : *order) {
      Clock &clock = reached[ref.stream];
      const ActionUnion &action = actionOf(ref);
      if (const WaitT *wait = action.AsWait())
        for (size_t s = 0; s < clock.size(); ++s)
          clock[s] = std::max(clock[s], events[wait->event][s]);
      if (Status s = visit(ref, clock); !s.ok())
        return s;
      clock[ref.stream] = ref.command + 1;
      if (const RecordT *record = action.AsRecord())
        events[record->event] = clock;
    }
    return {};
  }

private:
  const ActionUnion &actionOf(CommandRef ref) const {
    return streams[ref.stream]->commands[ref.command]->action;
  }

  /// Compares the command with all earlier ones. The serial order keeps
  /// happens-before, so that only earlier ones need a look.
  Status visit(CommandRef ref, const Clock &clock) {
    Status failure;
    forEachAccess(actionOf(ref), [&](int number, bool writes) {
      const BufferT &buffer = *program.buffers[number];
      Access access = accessTo(buffer, ref, writes);
      std::vector<Access> &seen = accesses[memoryOf(buffer, number)];
      for (const Access &earlier : seen)
        if (failure.ok() && conflict(earlier, access) &&
            clock[earlier.at.stream] <= earlier.at.command &&
            earlier.at.stream != ref.stream)
          failure = Status(StatusCode::BadPackage,
                           "program is refused: " + describe(earlier.at) +
                               " and " + describe(ref) +
                               " use the same memory and no event orders them");
      seen.push_back(access);
    });
    return failure;
  }

  static bool conflict(const Access &a, const Access &b) {
    return (a.writes || b.writes) &&
           (a.whole || b.whole || (a.begin < b.end && b.begin < a.end));
  }

  std::string describe(CommandRef ref) const {
    std::string text = "command " + std::to_string(ref.command) +
                       " of stream " + std::to_string(ref.stream);
    int location = streams[ref.stream]->commands[ref.command]->location;
    if (location < 0)
      return text;
    const LocationT &l = *program.locations[location];
    return text + " (" + l.operators + " at " + l.file + ":" +
           std::to_string(l.line) + ")";
  }

  const ProgramT &program;
  const Streams &streams;
  std::map<Memory, std::vector<Access>> accesses;
};

} // namespace

Status verifyRaces(const ProgramT &program, const Streams &streams) {
  // One stream is ordered by itself.
  if (streams.size() < 2)
    return {};
  return RaceChecker(program, streams).run();
}

} // namespace anabranch::package
