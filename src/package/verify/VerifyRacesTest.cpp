//===- VerifyRacesTest.cpp - races are found, and only races --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/verify/VerifyRaces.h"

#include "package/verify/Actions.h"
#include "package/verify/ProgramVerifier.h"
#include "support/package/TestPrograms.h"

#include "gtest/gtest.h"

#include <ctime>
#include <random>

namespace anabranch::testing {
namespace {

/// Appends a record to stream 0. The other stream waits for it before its only
/// command.
void recordAndWait(ProgramMaker &m, int stream) {
  m.record(0, 0);
  m.wait(0, stream);
  auto &commands = m.p.streams[stream]->commands;
  std::swap(commands[0], commands[1]);
}

void expectAnEventHelps(ProgramMaker &m, int stream) {
  recordAndWait(m, stream);
  Status s = verifyProgram(m.p);
  EXPECT_TRUE(s.ok()) << s.message();
}

TEST(VerifyRaces, WantsAnEventBetweenConflictingStreams) {
  ProgramMaker m;
  int x = m.input("x", {fixed(16)});
  int side = m.stream();
  int a = m.arena(0, {fixed(16)}, 64), y = m.output({fixed(16)});
  m.launch("increment", {x}, {a}, fixed(16));
  m.launch("twice", {a}, {y}, fixed(16), side);
  EXPECT_EQ(verifyProgram(m.p).message(),
            "program is refused: command 0 of stream 0 (increment at "
            "model.py:7) and command 0 of stream 1 (twice at model.py:8) use "
            "the same memory and no event orders them");
  expectAnEventHelps(m, side);
}

/// To other streams a super kernel is one command. It touches all that its
/// launches touch.
TEST(VerifyRaces, SuperKernelsTouchWhatTheirLaunchesDo) {
  ProgramMaker m;
  int x = m.input("x", {fixed(16)});
  int side = m.stream();
  int a = m.arena(0, {fixed(16)}, 64), b = m.arena(64, {fixed(16)}, 64);
  int y = m.output({fixed(16)}), both = m.arena(0, {fixed(32)}, 128);
  m.launch("increment", {x}, {b}, fixed(16));
  m.launch("increment", {b}, {both}, fixed(32));
  EXPECT_EQ(verifyProgram(m.p).message(),
            "program is refused: command 1 of stream 0 (increment at "
            "model.py:8) writes over a part of what it uses");
  SuperT &super = m.super("layer", 2);
  EXPECT_EQ(verifyProgram(m.p).message(),
            "program is refused: launch 1 of command 0 of stream 0 writes over "
            "a part of what it uses");
  super.launches[1]->buffers = {x, both};
  EXPECT_TRUE(verifyProgram(m.p).ok());
  m.launch("twice", {a}, {y}, fixed(16), side);
  EXPECT_EQ(verifyProgram(m.p).message(),
            "program is refused: command 0 of stream 0 and command 0 of stream "
            "1 (twice at model.py:9) use the same memory and no event orders "
            "them");
  expectAnEventHelps(m, side);
}

TEST(VerifyRaces, ReusedArenaBytesConflict) {
  ProgramMaker m;
  int x = m.input("x", {fixed(16)});
  int side = m.stream();
  int a = m.arena(0, {fixed(32)}, 128), b = m.arena(64, {fixed(16)}, 64);
  int y = m.output({fixed(16)}), z = m.output({fixed(16)});
  m.launch("increment", {x}, {a}, fixed(16));
  m.launch("increment", {a}, {y}, fixed(16));
  m.launch("increment", {x}, {b}, fixed(16), side);
  m.launch("increment", {b}, {z}, fixed(16), side);
  EXPECT_FALSE(verifyProgram(m.p).ok());
  *m.p.buffers[b]->offset = fixed(128);
  *m.p.arena_bytes = fixed(192);
  Status s = verifyProgram(m.p);
  EXPECT_TRUE(s.ok()) << s.message();
}

TEST(VerifyRaces, OrderPassesThroughThirdStreams) {
  ProgramMaker m;
  int x = m.input("x", {fixed(16)});
  m.stream(), m.stream();
  int a = m.arena(0, {fixed(16)}, 64), y = m.output({fixed(16)});
  m.launch("increment", {x}, {a}, fixed(16));
  m.record(0, 0);
  m.wait(0, 1);
  m.record(1, 1);
  m.wait(1, 2);
  m.launch("increment", {a}, {y}, fixed(16), 2);
  Status s = verifyProgram(m.p);
  EXPECT_TRUE(s.ok()) << s.message();
}

TEST(VerifyRaces, WantsAnEventBetweenOrderedCalls) {
  ProgramMaker m;
  int side = m.stream();
  for (int stream : {0, side}) {
    CallT call;
    call.op = "aten::rand";
    call.results = {m.external({fixed(16)})};
    call.ordered = true;
    m.push(std::move(call), stream).location = m.location("rand");
  }
  EXPECT_EQ(
      verifyRaces(m.p, m.p.streams).message(),
      "program is refused: command 0 of stream 0 (rand at model.py:7) and "
      "command 0 of stream 1 (rand at model.py:8) are calls that keep "
      "their order and no event orders them");
  CallT &second = *m.p.streams[side]->commands[0]->action.AsCall();
  second.ordered = false;
  EXPECT_TRUE(verifyRaces(m.p, m.p.streams).ok());
  second.ordered = true;
  recordAndWait(m, side);
  EXPECT_TRUE(verifyRaces(m.p, m.p.streams).ok());
}

TEST(VerifyRaces, OverwritesAllOrNothingOfWhatACommandReads) {
  ProgramMaker m;
  int a = m.arena(0, {fixed(32)}, 128), b = m.arena(64, {fixed(16)}, 64);
  m.launch("increment", {a}, {a}, fixed(32));
  EXPECT_TRUE(verifyProgram(m.p).ok());
  m.launch("increment", {a}, {b}, fixed(16));
  EXPECT_EQ(verifyProgram(m.p).message(),
            "program is refused: command 1 of stream 0 (increment at "
            "model.py:8) writes over a part of what it uses");
  m.p.streams[0]->commands.pop_back();
  m.launch("twice", {}, {a, a}, fixed(16));
  EXPECT_FALSE(verifyProgram(m.p).ok());
}

TEST(VerifyRaces, PartsOfTheArenaWithDynamicPlaces) {
  ProgramMaker m;
  m.input("x", {slot(0)});
  m.p.slots = 3;
  m.p.slot_sources.emplace_back(0, 0, 0);
  m.p.sizes_function = "sizes";
  int side = m.stream();
  auto dynamic = [&](Size offset) {
    int b = m.buffer(BufferKind::Arena, {slot(0)}, package::DType::F32);
    m.p.buffers[b]->offset = std::make_unique<Size>(offset);
    m.p.buffers[b]->bytes = std::make_unique<Size>(slot(1));
    return b;
  };
  int a = dynamic(fixed(0)), b = dynamic(slot(2)), again = dynamic(slot(2));
  m.launch("increment", {}, {a}, slot(0));
  m.launch("increment", {}, {b}, slot(0), side);
  Status s = verifyProgram(m.p);
  EXPECT_TRUE(s.ok()) << s.message();
  m.launch("increment", {}, {again}, slot(0));
  EXPECT_FALSE(verifyProgram(m.p).ok());
}

//===----------------------------------------------------------------------===//
// Random programs
//===----------------------------------------------------------------------===//

using Random = std::mt19937;

int pick(Random &random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

struct Made {
  CommandRef at{};
  std::vector<std::pair<int, bool>> accesses; // buffer, writes
  std::vector<bool> after;                    // commands that are done before
};

/// Makes programs together with the order of their commands. It keeps, for each
/// command, the set of commands before it, instead of vector clocks.
class RandomProgram {
public:
  RandomProgram(unsigned seed, int streams, int commands, bool ordered)
      : random(seed), ordered(ordered), streams(streams) {
    for (int s = 1; s < streams; ++s)
      m.stream();
    addBuffers();
    for (int i = 0; i < commands; ++i)
      addCommand();
  }

  /// Removes wait number `number`.
  bool dropWait(int number) {
    for (auto &stream : m.p.streams)
      for (auto &command : stream->commands)
        if (command->action.AsWait() && number-- == 0) {
          CopyT nothing; // does nothing: from a constant to nowhere
          nothing.source = nothing.destination = unused;
          command->action.Reset();
          command->action.Set(nothing);
          return true;
        }
    return false;
  }

  /// Compares all pairs of commands.
  bool hasRace() const {
    std::vector<Made> all = ofProgram();
    for (size_t i = 0; i < all.size(); ++i) {
      if (spoilsItself(all[i]))
        return true;
      for (size_t j = 0; j < i; ++j)
        if (!all[i].after[j] && !all[j].after[i] && conflict(all[i], all[j]))
          return true;
    }
    return false;
  }

  ProgramMaker m;

private:
  void addBuffers() {
    m.p.slots = 4;
    for (int i = pick(random, 2, 10); i > 0; --i)
      m.arena(64 * pick(random, 0, 12), {}, 64 * pick(random, 0, 4));
    for (int i = pick(random, 0, 3); i > 0; --i) {
      int b = m.arena(0, {}, 0);
      *m.p.buffers[b]->offset = slot(pick(random, 0, 3));
    }
    for (int i = pick(random, 1, 3); i > 0; --i) {
      m.input("x", {}, package::DType::F32, true);
      if (pick(random, 0, 1)) { // another view of the same memory
        int view = m.buffer(BufferKind::Input, {}, package::DType::F32);
        m.p.buffers[view]->index = static_cast<int>(m.p.inputs.size()) - 1;
      }
      m.output({});
      m.external({});
      m.persistent(64 * pick(random, 0, 3), {}, 64);
    }
    bufferCount = static_cast<int>(m.p.buffers.size());
    unused = m.constant("unused", {});
  }

  void addCommand() {
    Made made;
    int stream = pick(random, 0, streams - 1);
    std::vector<int> reads, writes;
    do {
      reads.clear(), writes.clear(), made.accesses.clear();
      for (int i = pick(random, 0, 2); i > 0; --i)
        reads.push_back(pick(random, 0, bufferCount - 1));
      for (int i = pick(random, 0, 1); i > 0; --i)
        writes.push_back(pick(random, 0, bufferCount - 1));
      for (int buffer : reads)
        made.accesses.push_back({buffer, false});
      for (int buffer : writes)
        made.accesses.push_back({buffer, true});
    } while (ordered && spoilsItself(made));
    if (ordered)
      waitForConflicts(made, stream);
    else if (pick(random, 0, 2) == 0 && streams > 1)
      addEvent(pick(random, 0, streams - 1), stream);
    m.launch("k", reads, writes, fixed(1), stream);
  }

  int lastCommand(int stream) const {
    return static_cast<int>(m.p.streams[stream]->commands.size()) - 1;
  }

  void addEvent(int from, int to) {
    m.record(m.p.events, from);
    m.wait(m.p.events - 1, to);
  }

  void waitForConflicts(const Made &made, int stream) {
    for (;;) {
      // The commands that would come before a command appended now.
      m.launch("probe", {}, {}, fixed(1), stream);
      std::vector<Made> all = ofProgram();
      const Made *probe = nullptr;
      for (const Made &command : all)
        if (command.at.stream == stream &&
            command.at.command == lastCommand(stream))
          probe = &command;
      int missing = -1;
      for (size_t i = 0; i < all.size() && missing < 0; ++i)
        if (&all[i] != probe && !probe->after[i] && conflict(all[i], made))
          missing = all[i].at.stream;
      m.p.streams[stream]->commands.pop_back();
      if (missing < 0)
        return;
      addEvent(missing, stream);
    }
  }

  /// All commands with the commands before each, found by following stream
  /// order and events until nothing changes.
  std::vector<Made> ofProgram() const {
    std::vector<Made> all;
    for (size_t s = 0; s < m.p.streams.size(); ++s)
      for (size_t c = 0; c < m.p.streams[s]->commands.size(); ++c) {
        Made made;
        made.at = {static_cast<int>(s), static_cast<int>(c)};
        forEachAccess(actionOf(made.at), [&](int buffer, bool writes) {
          made.accesses.push_back({buffer, writes});
        });
        all.push_back(std::move(made));
      }
    std::vector<std::vector<size_t>> before(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      all[i].after.assign(all.size(), false);
      if (all[i].at.command > 0)
        before[i].push_back(i - 1);
      if (const WaitT *wait = actionOf(all[i].at).AsWait())
        for (size_t j = 0; j < all.size(); ++j)
          if (const RecordT *record = actionOf(all[j].at).AsRecord())
            if (record->event == wait->event)
              before[i].push_back(j);
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < all.size(); ++i)
        for (size_t j : before[i])
          for (size_t k = 0; k < all.size(); ++k)
            if ((k == j || all[j].after[k]) && !all[i].after[k]) {
              all[i].after[k] = true;
              changed = true;
            }
    }
    return all;
  }

  const ActionUnion &actionOf(CommandRef at) const {
    return m.p.streams[at.stream]->commands[at.command]->action;
  }

  bool isPlaced(const BufferT &b) const {
    return b.offset && b.offset->slot() < 0;
  }

  bool overlap(int left, int right) const {
    const BufferT &a = *m.p.buffers[left], &b = *m.p.buffers[right];
    if (a.kind != b.kind)
      return false;
    switch (a.kind) {
    case BufferKind::Arena:
    case BufferKind::Persistent:
      if (!isPlaced(a) || !isPlaced(b))
        return !isPlaced(a) && !isPlaced(b) &&
               a.offset->slot() == b.offset->slot();
      for (int64_t byte = 0; byte < a.bytes->value(); ++byte)
        if (a.offset->value() + byte >= b.offset->value() &&
            a.offset->value() + byte < b.offset->value() + b.bytes->value())
          return true;
      return false;
    case BufferKind::External:
      return left == right;
    default:
      return a.index == b.index;
    }
  }

  bool conflict(const Made &a, const Made &b) const {
    for (auto [left, leftWrites] : a.accesses)
      for (auto [right, rightWrites] : b.accesses)
        if ((leftWrites || rightWrites) && overlap(left, right))
          return true;
    return false;
  }

  bool spoilsItself(const Made &made) const {
    const auto &list = made.accesses;
    for (size_t i = 0; i < list.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        const BufferT &a = *m.p.buffers[list[i].first];
        const BufferT &b = *m.p.buffers[list[j].first];
        if (!isPlaced(a) || !isPlaced(b) ||
            !overlap(list[i].first, list[j].first))
          continue;
        bool same = a.offset->value() == b.offset->value() &&
                    a.bytes->value() == b.bytes->value();
        if ((list[i].second && list[j].second) ||
            ((list[i].second || list[j].second) && !same))
          return true;
      }
    return false;
  }

  Random random;
  bool ordered;
  int streams, bufferCount = 0, unused = 0;
};

TEST(VerifyRaces, AgreesWithAllPairsOfRandomPrograms) {
  int races = 0, count = 4000;
  for (int seed = 0; seed < count; ++seed) {
    RandomProgram r(seed, 1 + seed % 5, 2 + seed % 14, false);
    bool race = r.hasRace();
    races += race;
    Status s = verifyRaces(r.m.p, r.m.p.streams);
    ASSERT_EQ(s.ok(), !race) << "seed " << seed << ": " << s.message();
  }
  EXPECT_GT(races, count / 10);
  EXPECT_LT(races, count * 9 / 10);
}

TEST(VerifyRaces, TakesOrderedProgramsAndSeesEachMissingWait) {
  int dropped = 0, races = 0;
  for (int seed = 0; seed < 400; ++seed) {
    int streams = 2 + seed % 4, commands = 4 + seed % 16;
    RandomProgram whole(seed, streams, commands, true);
    Status s = verifyRaces(whole.m.p, whole.m.p.streams);
    ASSERT_TRUE(s.ok()) << "seed " << seed << ": " << s.message();
    for (int wait = 0;; ++wait) {
      RandomProgram broken(seed, streams, commands, true);
      if (!broken.dropWait(wait))
        break;
      bool race = broken.hasRace();
      ++dropped;
      races += race;
      Status s = verifyRaces(broken.m.p, broken.m.p.streams);
      ASSERT_EQ(s.ok(), !race)
          << "seed " << seed << " without wait " << wait << ": " << s.message();
    }
  }
  EXPECT_GT(dropped, 400);
  EXPECT_GT(races, dropped / 2);
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

double milliseconds(const ProgramT &program) {
  auto now = [] {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e3 +
           static_cast<double>(t.tv_nsec) * 1e-6;
  };
  double begin = now();
  Status s = verifyRaces(program, program.streams);
  EXPECT_TRUE(s.ok()) << s.message();
  return now() - begin;
}

/// Chains on many streams that exchange their results, in an arena of 64 KiB
/// for each stream. At the end of a round, each stream reads what all streams
/// wrote.
ProgramMaker roundsOf(int streams, int commands) {
  ProgramMaker m;
  for (int s = 1; s < streams; ++s)
    m.stream();
  std::vector<std::vector<int>> buffers(streams);
  for (int s = 0; s < streams; ++s)
    for (int i = 0; i < 32; ++i)
      buffers[s].push_back(m.arena(65536 * s + 2048 * i, {}, 2048));
  int all = m.arena(0, {}, 65536 * streams);
  for (int made = 0, round = 0; made < commands; ++round) {
    for (int s = 0; s < streams; ++s)
      for (int i = 0; i < 16; ++i, ++made)
        m.launch("k", {buffers[s][i], buffers[s][(i + 7) % 32]},
                 {buffers[s][(i + round) % 16 + 16]}, fixed(1), s);
    for (int s = 1; s < streams; ++s) {
      m.record(m.p.events, s);
      m.wait(m.p.events - 1, 0);
    }
    m.launch("k", {all}, {}, fixed(1), 0), ++made;
    m.record(m.p.events, 0);
    for (int s = 1, done = m.p.events - 1; s < streams; ++s)
      m.wait(done, s);
  }
  return m;
}

TEST(VerifyRaces, TakesTimeInProportionToTheCommands) {
  for (int streams : {1, 2, 4, 16, 62}) {
    ProgramMaker small = roundsOf(streams, 10000);
    ProgramMaker large = roundsOf(streams, 40000);
    double a = milliseconds(small.p), b = milliseconds(large.p);
    std::printf("%d streams: %.1f ms for 10000 commands, %.1f ms for 40000\n",
                streams, a, b);
    EXPECT_LT(b, 8 * a + 20);
  }
}

} // namespace
} // namespace anabranch::testing
