//===- VerifyRaces.cpp - are all conflicting accesses ordered? ------------===//
// SPDX-License-Identifier: Apache-2.0
//
// All bytes that a program touches become places on one line. Bytes that are
// always touched as a whole are one place. For each stream, one walk goes over
// all commands. It knows how many commands of the stream are certainly done
// when a command begins, and which of them touched a range of places last. An
// access of another stream conflicts if that last command is not certainly
// done; the earlier ones of the stream are done before it. So the time grows
// with the number of commands, times the streams that share bytes with them.

#include "package/verify/VerifyRaces.h"

#include "package/verify/Actions.h"
#include "package/verify/RangeTree.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace anabranch::package {

namespace {

bool isStatic(const std::unique_ptr<Size> &size) {
  return size && size->slot() < 0;
}

/// A memory. Two buffers can only overlap inside one.
struct Memory {
  BufferKind kind;
  int64_t index = 0;  ///< which input, output, call result or arena part
  int slot = -1;      ///< of the offset, for a part of the arena
  bool bytes = false; ///< offsets are known; else it is one place

  bool operator<(const Memory &o) const {
    return std::tie(kind, index, slot, bytes) <
           std::tie(o.kind, o.index, o.slot, o.bytes);
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
    break;
  }
  if (isStatic(buffer.offset) && isStatic(buffer.bytes))
    return {buffer.kind, 0, -1, true};
  // If a buffer's place depends on sizes, the runtime refuses sizes for which
  // it overlaps a buffer of another offset.
  return buffer.offset ? Memory{buffer.kind, buffer.offset->value(),
                                buffer.offset->slot()}
                       : Memory{buffer.kind};
}

/// The places from `begin` to before `end`.
struct Range {
  size_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
};

/// The places of every buffer, and one place that all ordered calls write.
class Places {
public:
  explicit Places(const ProgramT &program)
      : calls(static_cast<int>(program.buffers.size())),
        ranges(program.buffers.size() + 1) {
    std::map<Memory, std::vector<int>> memories;
    for (size_t i = 0; i < program.buffers.size(); ++i)
      memories[memoryOf(*program.buffers[i], static_cast<int>(i))].push_back(
          static_cast<int>(i));
    for (const auto &[memory, buffers] : memories)
      if (memory.bytes)
        addBytes(program, buffers);
      else
        addWhole(buffers);
    addWhole({calls});
  }

  const int calls; ///< index into `ranges`: the place of ordered calls
  size_t count = 0;
  std::vector<Range> ranges; ///< by buffer

private:
  void addWhole(const std::vector<int> &buffers) {
    for (int buffer : buffers)
      ranges[buffer] = {count, count + 1};
    ++count;
  }

  /// Adds a place for the bytes between each two neighbouring ends of buffers.
  void addBytes(const ProgramT &program, const std::vector<int> &buffers) {
    std::vector<int64_t> ends;
    auto bytesOf = [&](int buffer) {
      const BufferT &b = *program.buffers[buffer];
      return std::make_pair(b.offset->value(),
                            b.offset->value() + b.bytes->value());
    };
    for (int buffer : buffers) {
      auto [begin, end] = bytesOf(buffer);
      ends.insert(ends.end(), {begin, end});
    }
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    auto placeOf = [&](int64_t byte) {
      return count + static_cast<size_t>(
                         std::lower_bound(ends.begin(), ends.end(), byte) -
                         ends.begin());
    };
    for (int buffer : buffers) {
      auto [begin, end] = bytesOf(buffer);
      ranges[buffer] = {placeOf(begin), placeOf(end)};
    }
    count += ends.size();
  }
};

struct Access {
  int buffer;
  bool writes;
};

/// One command, as the walks need it.
struct Step {
  CommandRef at;
  std::vector<Access> accesses;
  int wait = -1, record = -1; ///< events
};

/// The places that a stream touches at any time.
class Touched {
public:
  explicit Touched(size_t places) : before(places + 1, 0) {}

  void add(Range range) {
    ++before[range.begin];
    --before[range.end];
  }
  /// Turns counts of ranges that begin or end into numbers of touched places.
  void count() {
    int open = 0, touched = 0;
    for (int &place : before) {
      open += place;
      place = touched;
      touched += open > 0;
    }
  }
  bool any(Range range) const {
    return before[range.begin] < before[range.end];
  }

private:
  std::vector<int> before;
};

class RaceChecker {
public:
  RaceChecker(const ProgramT &program, const Streams &streams)
      : program(program), streams(streams), places(program),
        writes(places.count), accesses(places.count) {}

  Status run() {
    if (Status s = listSteps(); !s.ok())
      return s;
    for (const Step &step : steps)
      if (Status s = checkAlone(step.at); !s.ok())
        return s;
    // Commands of one stream are in order anyway.
    for (size_t s = 0; s < streams.size() && streams.size() > 1; ++s)
      if (Status status = walk(static_cast<int>(s)); !status.ok())
        return status;
    return {};
  }

private:
  Status listSteps();
  Status checkAlone(CommandRef at) const;
  bool overwritesPart(const std::vector<Access> &accesses) const;
  bool overwritesRead(const ActionUnion &action) const;
  Status walk(int stream);
  void findTouched(int stream, Touched &touched, Touched &written) const;

  Status refuse(const std::string &what) const {
    return Status(StatusCode::BadPackage, "program is refused: " + what);
  }
  std::string describe(CommandRef ref) const;

  const ProgramT &program;
  const Streams &streams;
  Places places;
  std::vector<Step> steps;    ///< in a serial order
  RangeTree writes, accesses; ///< command numbers of the current stream
};

Status RaceChecker::listSteps() {
  Expected<std::vector<CommandRef>> order =
      serialOrder(streams, program.events);
  if (!order)
    return order.takeStatus();
  steps.reserve(order->size());
  for (CommandRef ref : *order) {
    const ActionUnion &action =
        streams[ref.stream]->commands[ref.command]->action;
    Step step{ref, {}};
    if (const WaitT *wait = action.AsWait())
      step.wait = wait->event;
    if (const RecordT *record = action.AsRecord())
      step.record = record->event;
    forEachAccess(action, [&](int buffer, bool writes) {
      if (!places.ranges[buffer].empty())
        step.accesses.push_back({buffer, writes});
    });
    const CallT *call = action.AsCall();
    const BranchT *branch = action.AsBranch();
    const LoopT *loop = action.AsLoop();
    if ((call && call->ordered) || (branch && branch->ordered) ||
        (loop && loop->ordered))
      step.accesses.push_back({places.calls, true});
    steps.push_back(std::move(step));
  }
  return {};
}

/// Checks one command alone. It may overwrite exactly the bytes that it reads,
/// but not a part of them, and must write no byte twice. In a super kernel this
/// holds for each launch.
Status RaceChecker::checkAlone(CommandRef at) const {
  const ActionUnion &action = streams[at.stream]->commands[at.command]->action;
  const SuperT *super = action.AsSuper();
  if ((action.AsBranch() || action.AsLoop()) && overwritesRead(action))
    return refuse(describe(at) + " writes over an argument of its regions");
  size_t parts = super ? super->launches.size() : 1;
  for (size_t part = 0; part < parts; ++part) {
    std::vector<Access> accesses;
    auto add = [&](int buffer, bool writes) {
      accesses.push_back({buffer, writes});
    };
    super ? forEachAccess(*super->launches[part], add)
          : forEachAccess(action, add);
    if (overwritesPart(accesses))
      return refuse((super ? "launch " + std::to_string(part) + " of " : "") +
                    describe(at) + " writes over a part of what it uses");
  }
  return {};
}

/// Whether the command writes a place that it reads.
bool RaceChecker::overwritesRead(const ActionUnion &action) const {
  std::set<size_t> read;
  bool found = false;
  forEachAccess(action, [&](int buffer, bool writes) {
    Range range = places.ranges[buffer];
    if (range.empty())
      return;
    if (!writes)
      read.insert(range.begin);
    found |= writes && read.count(range.begin);
  });
  return found;
}

bool RaceChecker::overwritesPart(const std::vector<Access> &accesses) const {
  std::map<std::pair<size_t, size_t>, int> written; // how often, by range
  for (const Access &access : accesses) {
    Range range = places.ranges[access.buffer];
    if (!range.empty() &&
        memoryOf(*program.buffers[access.buffer], access.buffer).bytes)
      written[{range.begin, range.end}] += access.writes;
  }
  size_t end = 0, writtenEnd = 0;
  for (auto [range, times] : written) {
    if (times > 1 || range.first < (times ? end : writtenEnd))
      return true;
    end = std::max(end, range.second);
    if (times)
      writtenEnd = std::max(writtenEnd, range.second);
  }
  return false;
}

void RaceChecker::findTouched(int stream, Touched &touched,
                              Touched &written) const {
  for (const Step &step : steps)
    if (step.at.stream == stream)
      for (const Access &access : step.accesses) {
        touched.add(places.ranges[access.buffer]);
        if (access.writes)
          written.add(places.ranges[access.buffer]);
      }
  touched.count();
  written.count();
}

/// Compares the commands of one stream with those of all other streams that
/// come later in the serial order.
Status RaceChecker::walk(int stream) {
  Touched touched(places.count), written(places.count);
  findTouched(stream, touched, written);
  writes.clear();
  accesses.clear();
  // How many commands of the stream are certainly done when the next command of
  // each stream begins, and when each event has been waited for.
  std::vector<int> done(streams.size(), 0);
  std::vector<int> doneAt(static_cast<size_t>(program.events), 0);
  for (const Step &step : steps) {
    int &known = done[step.at.stream];
    if (step.wait >= 0)
      known = std::max(known, doneAt[step.wait]);
    for (const Access &access : step.accesses) {
      Range range = places.ranges[access.buffer];
      if (step.at.stream == stream) {
        accesses.put(range.begin, range.end, step.at.command);
        if (access.writes)
          writes.put(range.begin, range.end, step.at.command);
        continue;
      }
      if (!(access.writes ? touched : written).any(range))
        continue;
      int latest =
          (access.writes ? accesses : writes).get(range.begin, range.end);
      if (latest >= known)
        return refuse(describe({stream, latest}) + " and " + describe(step.at) +
                      (access.buffer == places.calls
                           ? " are calls that keep their order"
                           : " use the same memory") +
                      " and no event orders them");
    }
    if (step.at.stream == stream)
      known = step.at.command + 1;
    if (step.record >= 0)
      doneAt[step.record] = known;
  }
  return {};
}

std::string RaceChecker::describe(CommandRef ref) const {
  std::string text = "command " + std::to_string(ref.command) + " of stream " +
                     std::to_string(ref.stream);
  int location = streams[ref.stream]->commands[ref.command]->location;
  if (location < 0)
    return text;
  const LocationT &l = *program.locations[location];
  return text + " (" + l.operators + " at " + l.file + ":" +
         std::to_string(l.line) + ")";
}

} // namespace

Status verifyRaces(const ProgramT &program, const Streams &streams) {
  return RaceChecker(program, streams).run();
}

} // namespace anabranch::package
