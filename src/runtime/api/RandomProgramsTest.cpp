//===- RandomProgramsTest.cpp - order, values, errors of random programs --===//
// SPDX-License-Identifier: Apache-2.0
//
// ANABRANCH_RANDOM_PROGRAMS sets the number of programs, and
// ANABRANCH_SOAK_LAUNCHES the number of launches of the soak.

#include "package/files/FileHash.h"
#include "package/verify/SerialOrder.h"
#include "runtime/execute/Execute.h"
#include "support/runtime/TestRandomCalls.h"
#include "support/runtime/TestTeam.h"
#include "support/runtime/TestWatchdog.h"

#include <atomic>
#include <fstream>
#include <map>
#include <optional>

namespace anabranch::testing {

using runtime::ExecutionMode;

namespace {

RandomShape shapeOf(unsigned seed) {
  std::mt19937 random(seed);
  auto from = [&](int low, int high) {
    return low + static_cast<int>(random() % (high - low + 1));
  };
  return {from(4, 48), from(1, 9), from(1, 8), from(0, 2) > 0, seed % 2 == 1};
}

class RandomPrograms : public RandomPackages, public ::testing::Test {
protected:
  ~RandomPrograms() override { runtime::setExecutionMode(std::nullopt); }
};

TEST_F(RandomPrograms, KeepEveryOrderWithAnyNumberOfThreads) {
  int64_t programs = fromEnvironment("ANABRANCH_RANDOM_PROGRAMS", 150);
  int64_t first = fromEnvironment("ANABRANCH_RANDOM_SEED", 0);
  int64_t together[2] = {0, 0};
  for (unsigned seed = first; seed < first + programs; ++seed) {
    RandomProgram program(seed, shapeOf(seed));
    auto executable = open(program);
    ASSERT_TRUE(executable) << "seed " << seed;
    RandomCall call(program, seed);
    for (int threads : {1, 2, 3, 7}) {
      setDefaultThreads(threads);
      for (int64_t stalls : {0u, seed + 1}) {
        std::optional<TestTeam> team;
        if (stalls % 2)
          team.emplace(threads);
        Status s = call.run(*executable, stalls);
        ASSERT_TRUE(s.ok()) << s.message();
        ASSERT_EQ(call.wrong(), "")
            << "seed " << seed << ", threads " << threads;
        (threads == 1 ? together[0] : together[1]) += call.overlaps();
      }
    }
  }
  EXPECT_EQ(together[0], 0);
  if (!underThreadSanitizer)
    EXPECT_GT(together[1], programs) << "streams never ran beside each other";
}

TEST_F(RandomPrograms, CheckersSeeWhatIsOutOfOrder) {
  RandomProgram program(3);
  auto executable = open(program);
  ASSERT_TRUE(executable);
  RandomCall call(program);
  ASSERT_TRUE(call.run(*executable).ok());
  ASSERT_EQ(call.wrong(), "");
  auto [earlier, later] = program.orders.front();
  program.orders.push_back({later, earlier});
  EXPECT_NE(call.wrong(), "");
}

/// At each step the most urgent stream that is not blocked runs.
TEST_F(RandomPrograms, RunInSerialOrderOnOneWorker) {
  setDefaultThreads(1);
  for (unsigned seed = 0; seed < 20; ++seed) {
    RandomProgram program(seed, {30, 5, 5, false});
    auto executable = open(program);
    ASSERT_TRUE(executable);
    RandomCall call(program, seed);
    ASSERT_TRUE(call.run(*executable).ok());
    const package::Streams &streams = program.m.p.streams;
    auto order = package::serialOrder(streams, program.m.p.events);
    ASSERT_TRUE(order.ok());
    int64_t ended = -1;
    for (package::CommandRef ref : *order) {
      const auto &command = *streams[ref.stream]->commands[ref.command];
      const LaunchT *launch = command.action.AsLaunch();
      if (!launch || launch->sizes[0].value() == 0)
        continue;
      auto id = static_cast<size_t>(launch->sizes[1].value());
      EXPECT_LT(ended, call.entry(id).begin) << "seed " << seed;
      ended = call.entry(id).end;
    }
  }
}

/// Removes a record or a wait, or changes the event that one names.
void tamper(package::ProgramT &program, std::mt19937 &random) {
  std::vector<std::pair<StreamT *, size_t>> places;
  for (auto &stream : program.streams)
    for (size_t i = 0; i < stream->commands.size(); ++i)
      if (const auto &action = stream->commands[i]->action;
          action.AsRecord() || action.AsWait())
        places.push_back({stream.get(), i});
  if (places.empty())
    return;
  auto [stream, at] = places[random() % places.size()];
  auto &command = stream->commands[at];
  if (random() % 2) {
    stream->commands.erase(stream->commands.begin() +
                           static_cast<std::ptrdiff_t>(at));
    return;
  }
  int event =
      static_cast<int>(random() % static_cast<unsigned>(program.events));
  if (RecordT *record = command->action.AsRecord())
    record->event = event;
  if (WaitT *wait = command->action.AsWait())
    wait->event = event;
}

/// Replaces the program of a package, with right hashes, as a writer would.
void replaceProgram(const std::string &path, const package::ProgramT &program) {
  auto load = [&](const char *name) {
    std::ifstream file(path + "/" + name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  auto store = [&](const char *name, const std::string &bytes) {
    std::ofstream(path + "/" + name, std::ios::binary) << bytes;
  };
  auto replace = [](std::string &text, size_t from, const std::string &old,
                    const std::string &fresh) {
    size_t at = text.find(old, from);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, old.size(), fresh);
  };
  auto hash = [](const std::string &bytes) {
    return package::FileHash::of(bytes.data(), bytes.size());
  };
  std::string before = load("program.bin"),
              after = package::serializeProgram(program),
              manifest = load("manifest.json");
  replace(manifest, 0, hash(before), hash(after));
  replace(manifest, manifest.find("\"program.bin\""),
          std::to_string(before.size()), std::to_string(after.size()));
  store("program.bin", after);
  store("manifest.json", manifest);
}

/// No package can make a call hang or race. It is either refused, or computes
/// what it computed before.
TEST_F(RandomPrograms, AreRefusedOnceTamperedWithUnlessTheyStillHold) {
  std::map<std::string, int> outcomes;
  for (unsigned seed = 0; seed < 120; ++seed) {
    RandomProgram program(seed, {20, 4, 5, false});
    std::mt19937 random(seed);
    std::string path = write(program);
    tamper(program.m.p, random);
    replaceProgram(path, program.m.p);
    auto executable = openAt(path);
    if (!executable) {
      EXPECT_EQ(executable.status().code(), StatusCode::BadPackage);
      std::string why = executable.status().message();
      for (const char *part : {"wait for each other forever", "no event orders",
                               "for the second time"})
        if (why.find(part) != std::string::npos)
          why = part;
      ++outcomes[why];
      continue;
    }
    ++outcomes["holds"];
    RandomCall call(program, seed);
    for (int threads : {1, 3}) {
      setDefaultThreads(threads);
      ASSERT_TRUE(call.run(**executable, seed + 1).ok());
      ASSERT_EQ(call.wrongValues(), "") << "seed " << seed;
    }
  }
  EXPECT_EQ(outcomes.size(), 4u);
  for (const auto &[outcome, times] : outcomes)
    EXPECT_GT(times, 3) << outcome;
}

TEST_F(RandomPrograms, RunFromManyThreadsOnOnePool) {
  runtime::setExecutionMode(ExecutionMode::Shared); // also in a crowd
  std::vector<std::unique_ptr<RandomProgram>> programs;
  std::vector<std::shared_ptr<const Executable>> executables;
  for (unsigned seed = 0; seed < 6; ++seed) {
    programs.push_back(std::make_unique<RandomProgram>(seed, shapeOf(seed)));
    executables.push_back(open(*programs.back()));
    ASSERT_TRUE(executables.back());
  }
  setDefaultThreads(3);
  expectOnThreads(5, [&](unsigned t) {
    std::string wrong;
    for (unsigned i = 0; i < 30 && wrong.empty(); ++i) {
      unsigned which = (t + i) % 6;
      RandomCall call(*programs[which], t);
      Status s = call.run(*executables[which], i % 3 ? t * 100 + i : 0);
      wrong = s.ok() ? call.wrong() : s.message();
    }
    return wrong;
  });
}

TEST_F(RandomPrograms, AnErrorEndsTheCallAndNotTheNext) {
  int failed = 0, early = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    RandomProgram program(seed, shapeOf(seed));
    auto executable = open(program);
    ASSERT_TRUE(executable);
    setDefaultThreads(1 + static_cast<int>(seed % 4));
    RandomCall call(program, seed);
    ASSERT_TRUE(call.run(*executable).ok());
    int64_t all = call.tickets();
    unsigned id = seed % static_cast<unsigned>(program.commands.size());
    bool runs = call.entry(id).tiles > 0;
    Status s = call.run(*executable, seed, id);
    ASSERT_EQ(s.ok(), !runs) << s.message();
    // When a call has returned, nothing of it runs any more.
    int64_t tickets = call.tickets();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(call.tickets(), tickets);
    for (auto [earlier, later] : program.orders)
      if (runs && static_cast<unsigned>(earlier) == id)
        EXPECT_EQ(call.entry(later).tiles, 0) << "ran after the error";
    failed += runs;
    early += tickets < all;
    ASSERT_TRUE(call.run(*executable).ok());
    EXPECT_EQ(call.wrong(), "") << "after an error, seed " << seed;
  }
  EXPECT_GT(failed, 20);
  if (!underThreadSanitizer)
    EXPECT_GT(early, failed / 2) << "other streams stop, too";
}

//===----------------------------------------------------------------------===//
// Soak
//===----------------------------------------------------------------------===//

TEST_F(RandomPrograms, SoakWithoutAStall) {
  runtime::setExecutionMode(ExecutionMode::Shared); // also in a crowd
  int64_t wanted = fromEnvironment("ANABRANCH_SOAK_LAUNCHES", 100000);
  std::vector<std::unique_ptr<RandomProgram>> programs;
  std::vector<std::shared_ptr<const Executable>> executables;
  for (unsigned seed = 0; seed < 12; ++seed) {
    programs.push_back(
        std::make_unique<RandomProgram>(1000 + seed, shapeOf(1000 + seed)));
    executables.push_back(open(*programs.back()));
    ASSERT_TRUE(executables.back());
  }
  setDefaultThreads(3);
  std::atomic<int64_t> launches{0};
  std::atomic<bool> bad{false};
  Watchdog watchdog(launches);
  expectOnThreads(3, [&](unsigned t) {
    std::string wrong;
    for (unsigned i = 0; launches < wanted && !bad; ++i) {
      unsigned which = (t * 5 + i / 64) % 12;
      RandomCall call(*programs[which], t);
      for (unsigned n = 0; n < 64 && wrong.empty(); ++n, ++i) {
        Status s = call.run(*executables[which], n % 16 == 0 ? i + 1 : 0);
        wrong = s.ok() ? call.wrong() : s.message();
        launches += static_cast<int64_t>(executables[which]->launchCount());
      }
      bad = bad || !wrong.empty();
    }
    return wrong;
  });
  RecordProperty("launches", std::to_string(launches));
}

} // namespace
} // namespace anabranch::testing
