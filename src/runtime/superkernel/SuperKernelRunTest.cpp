//===- SuperKernelRunTest.cpp - random super kernels, tile by tile --------===//
// SPDX-License-Identifier: Apache-2.0
//
// Every tile notes when it began and ended. Two tiles must have run in the
// order of the program if they share a byte that one of them writes, or if an
// order is asked for. ANABRANCH_RANDOM_SUPERS sets the number of programs, and
// ANABRANCH_SOAK_TILES the number of tiles of the soak.

#include "runtime/execute/Execute.h"
#include "runtime/superkernel/StridedRegion.h"
#include "support/runtime/TestRandomCalls.h"
#include "support/runtime/TestTeam.h"
#include "support/runtime/TestTiles.h"
#include "support/runtime/TestWatchdog.h"

#include <set>
#include <thread>

namespace anabranch::testing {

namespace {

using runtime::ExecutionMode;

constexpr int64_t words = TILES_ROWS * TILES_COLUMNS, tensorBytes = words * 4;

struct TiledLaunch {
  std::vector<int64_t> sizes; ///< as the kernel gets them
  std::vector<int> reads;     ///< tensors
  int writes = 0;
  bool blind = false;
  bool fills = false; ///< a tensor, before any other launch uses it
};

constexpr int64_t tileCounts[] = {1, 2, 4, 8, 16, 3, 7, 0};

/// Launches over tensors of one arena, some of which overlap by half, in super
/// kernels of random length. If it is symbolic, calls say how many tiles each
/// launch has.
class TiledProgram {
public:
  TiledProgram(unsigned seed, int launches, bool symbolic = false)
      : symbolic(symbolic), random(seed) {
    int count = 3 + below(4);
    // Neighbours share half of their bytes in some programs.
    int64_t step = below(3) ? tensorBytes : tensorBytes / 2;
    for (int t = 0; t < count; ++t) {
      offsets.push_back(t * step);
      buffers.push_back(m.arena(t * step, {fixed(words)}, tensorBytes));
    }
    arenaWords = (offsets.back() + tensorBytes) / 4;
    x = m.input("x", {fixed(words)});
    log = m.input(
        "log", {fixed(STAMP_HEADER_WORDS + 2 * TILES_MOST * (launches + 64))},
        package::DType::I64);
    for (int t = 0; t < count; ++t)
      fill(t);
    for (int i = 0; i < launches; ++i)
      add();
    int all = static_cast<int>(m.p.streams[0]->commands.size());
    int members = 1 + (below(3) ? all - 1 : below(all));
    SuperT &super = m.super("super", members);
    for (int count = below(3); count > 0 && members > 1; --count)
      order(super, all - members, members);
    for (int t = 0; t < count; ++t)
      m.copy(buffers[t], m.output({fixed(words)}));
  }

  /// Gives launches other numbers of tiles, also none.
  void bind(unsigned seed) {
    std::mt19937 random(seed);
    for (TiledLaunch &l : launches)
      l.sizes[TILED_TILES] = tileCounts[random() % (l.fills ? 7 : 8)];
  }

  std::vector<int64_t> counts() const {
    std::vector<int64_t> counts;
    for (const TiledLaunch &l : launches)
      counts.push_back(l.sizes[TILED_TILES]);
    return counts;
  }

  const bool symbolic;
  ProgramMaker m;
  std::vector<TiledLaunch> launches;
  /// Pairs of launches, the first of which must end before the second begins.
  std::set<std::pair<size_t, size_t>> orders;
  std::vector<int64_t> offsets; ///< of the tensors
  int64_t arenaWords = 0;
  int log = 0;

  /// The arena after all launches, one after the other.
  Words expected(const Words &x) const {
    Words arena(static_cast<size_t>(arenaWords), 0);
    for (const TiledLaunch &l : launches) {
      std::vector<const uint32_t *> reads;
      for (int tensor : l.reads)
        reads.push_back(tensor < 0 ? x.data()
                                   : arena.data() + offsets[tensor] / 4);
      for (int64_t tile = 0; tile < l.sizes[TILED_TILES]; ++tile)
        tile_compute(reads.data(), arena.data() + offsets[l.writes] / 4,
                     l.sizes.data(), tile);
    }
    return arena;
  }

private:
  int below(int end) { return static_cast<int>(random() % end); }

  void fill(int tensor) {
    TiledLaunch l;
    l.fills = true;
    l.reads = {-1};
    l.writes = tensor;
    l.sizes = {8, 0, 1, PART_ROWS, PART_ROWS};
    push(l);
  }

  void add() {
    TiledLaunch l;
    l.blind = below(8) == 0;
    l.writes = below(static_cast<int>(buffers.size()));
    l.sizes = {tileCounts[below(7)], 0, 0, below(2)};
    for (int i = below(4); i > 0; --i) {
      int tensor = below(static_cast<int>(buffers.size()));
      int64_t distance = offsets[tensor] - offsets[l.writes];
      // A tile may overwrite bytes that no other tile reads.
      if (distance == 0 || std::abs(distance) >= tensorBytes) {
        l.reads.push_back(tensor);
        l.sizes.push_back(distance ? below(PART_KINDS) : l.sizes[TILED_OUTPUT]);
      }
    }
    l.sizes[TILED_INPUTS] = static_cast<int64_t>(l.reads.size());
    push(l);
  }

  /// Asks for an order between some members, of which launch `first` is the
  /// first.
  void order(SuperT &super, int first, int members) {
    auto asked = std::make_unique<OrderT>();
    int cut = 1 + below(members - 1);
    asked->before = {below(cut), below(cut)};
    asked->after = {cut + below(members - cut), cut + below(members - cut)};
    for (int before : asked->before)
      for (int after : asked->after)
        orders.insert({first + before, first + after});
    super.orders.push_back(std::move(asked));
  }

  void push(TiledLaunch &l) {
    const char *name = l.blind ? "blind" : "tiled";
    l.sizes[TILED_ID] = static_cast<int64_t>(launches.size());
    LaunchT launch;
    launch.kernel = m.kernel(name);
    launch.buffers = {log};
    for (int tensor : l.reads)
      launch.buffers.push_back(tensor < 0 ? x : buffers[tensor]);
    launch.input_count = static_cast<int>(launch.buffers.size());
    launch.buffers.push_back(buffers[l.writes]);
    for (int64_t size : l.sizes)
      launch.sizes.push_back(fixed(size));
    if (symbolic) {
      launch.sizes[TILED_TILES] = slot(m.p.slots);
      m.scalar("tiles" + std::to_string(m.p.slots), m.p.slots);
      ++m.p.slots;
    }
    m.push(std::move(launch), 0).location = m.location(name);
    m.work(name, 1e5, {TILED_TILES}); // no tile is too small to be a task
    launches.push_back(l);
  }

  std::mt19937 random;
  std::vector<int> buffers;
  int x = 0;
};

/// One tile, and the bytes of the arena that it uses.
struct TiledUse {
  size_t launch;
  int64_t tile;
  std::vector<std::pair<runtime::StridedRegion, bool>> regions; ///< writes
};

class TiledCall {
public:
  explicit TiledCall(const TiledProgram &program, unsigned seed = 1)
      : program(program), x(words) {
    std::mt19937 random(seed);
    for (uint32_t &word : x)
      word = static_cast<uint32_t>(random());
    expected = program.expected(x);
    logWords = program.m.p.buffers[program.log]->shape[0].value();
    findConflicts();
  }

  Status run(const Executable &executable, int64_t stalls, int64_t fails = -1) {
    log.assign(static_cast<size_t>(logWords), 0);
    *reinterpret_cast<stamp_header *>(log.data()) = {1, stalls, fails};
    const int64_t shape[] = {words}, logShape[] = {logWords};
    std::vector<InputValue> inputs(2);
    inputs[0].tensor = {x.data(), shape, nullptr, 1, anabranch::DType::F32};
    inputs[1].tensor = {log.data(), logShape, nullptr, 1,
                        anabranch::DType::I64};
    for (const TiledLaunch &l : program.launches)
      if (program.symbolic) {
        inputs.emplace_back();
        inputs.back().kind = InputValue::Kind::Scalar;
        inputs.back().scalar = l.sizes[TILED_TILES];
      }
    outputs.assign(executable.outputs().size(), {});
    return executable.run(inputs.data(), inputs.size(), outputs.data(),
                          outputs.size(), memory);
  }

  std::string wrong() const {
    for (const auto &[a, b] : conflicts)
      if (entry(*a).end >= entry(*b).begin || entry(*b).end == 0)
        return name(*b) + " began before the end of " + name(*a);
    for (size_t t = 0; t < memory.memory.size(); ++t)
      if (std::memcmp(static_cast<const void *>(memory.memory[t].data()),
                      expected.data() + program.offsets[t] / 4,
                      tensorBytes) != 0)
        return "tensor " + std::to_string(t) + " differs";
    return {};
  }

  /// The number of pairs of tiles of different launches that overlapped, or ran
  /// in another order than their launches.
  int64_t overtakes() const {
    int64_t count = 0;
    for (const TiledUse &a : uses)
      for (const TiledUse &b : uses)
        count += a.launch < b.launch && entry(b).begin < entry(a).end;
    return count;
  }

  /// The number of tiles that ran although they need a tile of the launch.
  int ranAfter(size_t launch) const {
    int count = 0;
    for (const auto &[a, b] : conflicts)
      count += a->launch == launch && entry(*b).begin > 0;
    return count;
  }

  size_t tileCount() const { return uses.size(); }

private:
  const tile_entry &entry(const TiledUse &use) const {
    auto *data = const_cast<int64_t *>(log.data());
    return *tile_entry_of(data, static_cast<int64_t>(use.launch), use.tile);
  }
  static std::string name(const TiledUse &use) {
    return "tile " + std::to_string(use.tile) + " of launch " +
           std::to_string(use.launch);
  }

  void findConflicts() {
    for (size_t i = 0; i < program.launches.size(); ++i) {
      const TiledLaunch &l = program.launches[i];
      for (int64_t tile = 0; tile < l.sizes[TILED_TILES]; ++tile) {
        TiledUse use{i, tile, {}};
        auto add = [&](int tensor, int64_t kind, bool writes) {
          if (tensor >= 0)
            use.regions.push_back(
                {*runtime::regionAt(tile_part(kind, tile, l.sizes[TILED_TILES]),
                                    program.offsets[tensor]),
                 writes});
        };
        for (size_t k = 0; k < l.reads.size(); ++k)
          add(l.reads[k], l.sizes[TILED_KINDS + k], false);
        add(l.writes, l.sizes[TILED_OUTPUT], true);
        uses.push_back(std::move(use));
      }
    }
    for (const TiledUse &a : uses)
      for (const TiledUse &b : uses)
        if (program.orders.count({a.launch, b.launch}) ||
            (a.launch < b.launch && conflict(a, b)))
          conflicts.push_back({&a, &b});
  }

  static bool conflict(const TiledUse &a, const TiledUse &b) {
    for (const auto &[x, writesX] : a.regions)
      for (const auto &[y, writesY] : b.regions)
        if ((writesX || writesY) && meets(x, y))
          return true;
    return false;
  }

  const TiledProgram &program;
  Words x, expected;
  int64_t logWords = 0;
  std::vector<TiledUse> uses;
  std::vector<std::pair<const TiledUse *, const TiledUse *>> conflicts;
  std::vector<int64_t> log;
  std::vector<OutputValue> outputs;
  VectorAllocator memory;
};

class SuperRuns : public ::testing::Test {
protected:
  ~SuperRuns() override {
    setDefaultThreads(0);
    runtime::setExecutionMode(std::nullopt);
  }

  std::shared_ptr<const Executable> open(const TiledProgram &program) {
    return folder.open(program.m);
  }

  /// Makes and opens this many programs, from a seed on.
  void openMany(unsigned many, unsigned firstSeed, int launches) {
    for (unsigned i = 0; i < many; ++i) {
      programs.push_back(
          std::make_unique<TiledProgram>(firstSeed + i, launches));
      executables.push_back(open(*programs.back()));
      ASSERT_TRUE(executables.back());
    }
  }

  std::vector<std::unique_ptr<TiledProgram>> programs;
  std::vector<std::shared_ptr<const Executable>> executables;

private:
  PackageFolder folder;
};

TEST_F(SuperRuns, OrderEveryTwoTilesThatShareBytes) {
  int64_t programs = fromEnvironment("ANABRANCH_RANDOM_SUPERS", 60);
  int64_t first = fromEnvironment("ANABRANCH_RANDOM_SEED", 0);
  int64_t overtakes = 0;
  for (unsigned seed = first; seed < first + programs; ++seed) {
    TiledProgram program(seed, 2 + static_cast<int>(seed % 20));
    auto executable = open(program);
    ASSERT_TRUE(executable) << "seed " << seed;
    TiledCall call(program, seed);
    for (int threads : {1, 2, 3, 7}) {
      setDefaultThreads(threads);
      // Modes take turns on one frame, as the mode tuner does it.
      for (auto [mode, stalls] : {std::pair(ExecutionMode::Shared, 0u),
                                  {ExecutionMode::MemberByMember, seed},
                                  {ExecutionMode::Shared, seed + 1},
                                  {ExecutionMode::Serial, 0u},
                                  {ExecutionMode::Shared, seed + 1000}}) {
        runtime::setExecutionMode(mode);
        std::optional<TestTeam> team;
        if (stalls % 2)
          team.emplace(threads);
        Status s = call.run(*executable, stalls);
        ASSERT_TRUE(s.ok()) << s.message();
        ASSERT_EQ(call.wrong(), "")
            << "seed " << seed << ", threads " << threads << ", mode "
            << static_cast<int>(mode);
        int64_t ahead = call.overtakes();
        if (threads == 1 || mode != ExecutionMode::Shared)
          ASSERT_EQ(ahead, 0) << "members are launches, one by one";
        overtakes += ahead;
      }
    }
  }
  if (!underThreadSanitizer)
    EXPECT_GT(overtakes, 1000) << "tiles never ran ahead of a whole launch";
}

/// Sizes that come and go have tasks of their own each. Those of the first call
/// are launches.
TEST_F(SuperRuns, OrderTilesForWhateverSizesCallsBind) {
  runtime::setExecutionMode(ExecutionMode::Shared);
  int64_t programs = fromEnvironment("ANABRANCH_RANDOM_SUPERS", 60) / 10;
  int64_t overtakes = 0;
  for (unsigned seed = 0; seed < programs; ++seed) {
    TiledProgram program(seed, 2 + static_cast<int>(seed % 20),
                         /*symbolic=*/true);
    auto executable = open(program);
    ASSERT_TRUE(executable) << "seed " << seed;
    std::set<std::vector<int64_t>> known;
    for (unsigned step = 0; step < 24; ++step) {
      setDefaultThreads(2 + static_cast<int>(step % 3));
      program.bind(seed * 100 + step * step / 3 % 7);
      TiledCall call(program, seed);
      bool isNew = known.insert(program.counts()).second;
      for (unsigned i = 0; i < 3; ++i) {
        Status s = call.run(*executable, i ? seed + step : 0);
        ASSERT_TRUE(s.ok()) << s.message();
        ASSERT_EQ(call.wrong(), "") << "seed " << seed << ", step " << step;
        if (isNew && i == 0)
          ASSERT_EQ(call.overtakes(), 0) << "a first call ran tasks";
        overtakes += call.overtakes();
      }
    }
  }
  if (!underThreadSanitizer)
    EXPECT_GT(overtakes, 1000) << "tiles never ran ahead of a whole launch";
}

TEST_F(SuperRuns, BindSizesOnManyThreadsAtOnce) {
  runtime::setExecutionMode(ExecutionMode::Shared); // also in a crowd
  setDefaultThreads(3);
  TiledProgram made(7, 14, /*symbolic=*/true);
  auto executable = open(made);
  ASSERT_TRUE(executable);
  expectOnThreads(4, [&](unsigned t) {
    TiledProgram program(7, 14, /*symbolic=*/true);
    std::string wrong;
    for (unsigned i = 0; i < 40 && wrong.empty(); ++i) {
      program.bind((t + i / 4) % 6);
      TiledCall call(program, t);
      Status s = call.run(*executable, i % 2 ? t * 100 + i : 0);
      wrong = s.ok() ? call.wrong() : s.message();
    }
    return wrong;
  });
}

/// The checker itself must notice tiles that run out of order.
TEST_F(SuperRuns, CheckerSeesTilesOutOfOrder) {
  TiledProgram program(5, 12);
  auto executable = open(program);
  TiledCall call(program);
  ASSERT_TRUE(call.run(*executable, 0).ok());
  EXPECT_EQ(call.wrong(), "");
  TiledProgram other(5, 12);
  std::reverse(other.launches.begin(), other.launches.end());
  TiledCall reversed(other);
  ASSERT_TRUE(reversed.run(*executable, 0).ok());
  EXPECT_NE(reversed.wrong(), "");
}

TEST_F(SuperRuns, ServeManyThreadsOnOnePool) {
  runtime::setExecutionMode(ExecutionMode::Shared); // also in a crowd
  setDefaultThreads(3);
  ASSERT_NO_FATAL_FAILURE(openMany(5, /*firstSeed=*/100, /*launches=*/14));
  expectOnThreads(4, [&](unsigned t) {
    std::string wrong;
    for (unsigned i = 0; i < 40 && wrong.empty(); ++i) {
      unsigned which = (t + i / 8) % 5;
      TiledCall call(*programs[which], t);
      Status s = call.run(*executables[which], i % 2 ? t * 100 + i : 0);
      wrong = s.ok() ? call.wrong() : s.message();
    }
    return wrong;
  });
}

/// Tiles that need the failed tile do not run. The next call is not affected.
TEST_F(SuperRuns, AnErrorEndsTheCallAndNotTheNext) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    TiledProgram program(seed, 12);
    auto executable = open(program);
    ASSERT_TRUE(executable);
    TiledCall call(program, seed);
    setDefaultThreads(1 + static_cast<int>(seed % 4));
    size_t id = seed % program.launches.size();
    Status s = call.run(*executable, seed, static_cast<int64_t>(id));
    EXPECT_EQ(s.code(), StatusCode::IndexError);
    EXPECT_NE(s.message().find("in tiled at model.py:") == std::string::npos,
              s.message().find("in blind at model.py:") == std::string::npos)
        << s.message();
    EXPECT_EQ(call.ranAfter(id), 0) << "seed " << seed;
    for (int again = 0; again < 2; ++again) {
      ASSERT_TRUE(call.run(*executable, 0).ok());
      EXPECT_EQ(call.wrong(), "") << "after an error, seed " << seed;
    }
  }
}

TEST_F(SuperRuns, SoakWithoutAStall) {
  runtime::setExecutionMode(ExecutionMode::Shared); // also in a crowd
  int64_t wanted = fromEnvironment("ANABRANCH_SOAK_TILES", 200000);
  ASSERT_NO_FATAL_FAILURE(openMany(8, /*firstSeed=*/200, /*launches=*/20));
  setDefaultThreads(3);
  std::atomic<int64_t> tiles{0};
  std::atomic<bool> bad{false};
  Watchdog watchdog(tiles);
  expectOnThreads(3, [&](unsigned t) {
    std::string wrong;
    for (unsigned i = 0; tiles < wanted && !bad; ++i) {
      unsigned which = (t * 3 + i) % 8;
      TiledCall call(*programs[which], t);
      for (unsigned n = 0; n < 32 && wrong.empty(); ++n) {
        Status s =
            call.run(*executables[which], n % 8 == 0 ? i * 32 + n + 1 : 0);
        wrong = s.ok() ? call.wrong() : s.message();
        tiles += static_cast<int64_t>(call.tileCount());
      }
      bad = bad || !wrong.empty();
    }
    return wrong;
  });
  RecordProperty("tiles", std::to_string(tiles));
}

} // namespace
} // namespace anabranch::testing
