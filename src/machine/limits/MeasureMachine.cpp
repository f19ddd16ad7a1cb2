//===- MeasureMachine.cpp - short loops that reach a machine's limits -----===//
// SPDX-License-Identifier: Apache-2.0
//
// Each figure is the best of many short pieces of work. Other processes can
// only slow a piece down, and on a busy machine they slow most pieces.

#include "machine/limits/MeasureMachine.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <functional>
#include <linux/futex.h>
#include <memory>
#include <sched.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace anabranch::machine {

namespace {

/// Nanoseconds of the steady clock.
int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Keeps the compiler from dropping what was computed. The value is in a vector
/// register.
void use(float value) {
#ifdef __aarch64__
  asm volatile("" : : "w"(value) : "memory");
#else
  asm volatile("" : : "x"(value) : "memory");
#endif
}

//===----------------------------------------------------------------------===//
// Loops, one for each width of vectors
//===----------------------------------------------------------------------===//

constexpr int64_t multiplyAddRounds = 20000;

/// The compiler does not know these values, so it cannot fold the loop.
volatile float factor = 0.999f, summand = 0.001f;

#pragma clang fp contract(fast)

/// Independent chains of multiply-adds. A core of x86 has two units with a
/// latency of four to five cycles, so eight to ten chains keep it busy; one of
/// Arm has up to four units. More chains than these do not fit the registers
/// that `use` takes, 16 of x86: they would be stored and loaded in each round,
/// which halves the rate.
#ifdef __aarch64__
constexpr int chains = 20;
#else
constexpr int chains = 12;
#endif

/// Returns the number of operations.
template <typename Vector> [[gnu::always_inline]] inline double multiplyAdd() {
  Vector sums[chains], x, y;
  constexpr int lanes = sizeof(Vector) / sizeof(float);
  for (int i = 0; i < lanes; ++i) {
    x[i] = factor;
    y[i] = summand;
  }
  for (int c = 0; c < chains; ++c)
    sums[c] = y * static_cast<float>(c);
  for (int64_t round = 0; round < multiplyAddRounds; ++round)
#pragma clang loop unroll(full)
    for (int c = 0; c < chains; ++c)
      sums[c] = sums[c] * x + y;
  for (int c = 0; c < chains; ++c)
    use(sums[c][0]);
  return 2.0 * lanes * chains * static_cast<double>(multiplyAddRounds);
}

template <typename Vector>
[[gnu::always_inline]] inline void readAll(const float *data, int64_t count) {
  constexpr int lanes = sizeof(Vector) / sizeof(float);
  const auto *vectors = reinterpret_cast<const Vector *>(data);
  Vector sums[8] = {};
  for (int64_t i = 0; i + 8 <= count / lanes; i += 8)
#pragma clang loop unroll(full)
    for (int c = 0; c < 8; ++c)
      sums[c] += vectors[i + c];
  for (int c = 0; c < 8; ++c)
    use(sums[c][0]);
}

typedef float Float4 __attribute__((vector_size(16)));
typedef float Float8 __attribute__((vector_size(32)));
typedef float Float16 __attribute__((vector_size(64)));

struct Loops {
  double (*multiplyAdd)();
  void (*readAll)(const float *data, int64_t count);
};

double multiplyAdd4() { return multiplyAdd<Float4>(); }
void readAll4(const float *data, int64_t count) {
  readAll<Float4>(data, count);
}

#ifdef __x86_64__
[[gnu::target("avx2,fma")]] double multiplyAdd8() {
  return multiplyAdd<Float8>();
}
[[gnu::target("avx2,fma")]] void readAll8(const float *data, int64_t count) {
  readAll<Float8>(data, count);
}
[[gnu::target("avx512f,avx512vl,avx512bw,avx512dq")]] double multiplyAdd16() {
  return multiplyAdd<Float16>();
}
[[gnu::target("avx512f,avx512vl,avx512bw,avx512dq")]] void
readAll16(const float *data, int64_t count) {
  readAll<Float16>(data, count);
}

/// The shapes of eight AMX registers, each of 16 rows of 64 bytes, as ldtilecfg
/// reads them.
struct alignas(64) AmxShapes {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t columnBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

constexpr int64_t tileRounds = 2000;

/// Of four products of registers: 16 x 16 sums of 16 words of two or four.
template <bool isInt8>
constexpr double operationsOfRound = 2.0 * 16 * 16 * 16 * (isInt8 ? 4 : 2) * 4;

/// Adds the product of two AMX registers, whose words are two bf16 or four
/// bytes.
template <bool isInt8, int sums, int left, int right>
[[gnu::target("amx-tile,amx-bf16,amx-int8")]] void multiplyAmx() {
  if constexpr (isInt8)
    _tile_dpbssd(sums, left, right);
  else
    _tile_dpbf16ps(sums, left, right);
}

/// Four chains, as in a block of two registers of each operand. Returns the
/// number of operations.
template <bool isInt8>
[[gnu::target("amx-tile,amx-bf16,amx-int8")]] double multiplyRegisters() {
  AmxShapes shapes;
  _tile_loadconfig(&shapes);
  for (int64_t round = 0; round < tileRounds; ++round) {
    multiplyAmx<isInt8, 0, 4, 6>();
    multiplyAmx<isInt8, 1, 4, 7>();
    multiplyAmx<isInt8, 2, 5, 6>();
    multiplyAmx<isInt8, 3, 5, 7>();
  }
  _tile_release();
  return operationsOfRound<isInt8> * static_cast<double>(tileRounds);
}

/// The same with operands that each round loads from the first-level cache.
/// Registers that hold zeros only would multiply faster.
template <bool isInt8>
[[gnu::target("amx-tile,amx-bf16,amx-int8")]] double multiplyLoaded() {
  constexpr int64_t reg = 1024, line = 64;
  alignas(64) static const std::array<uint8_t, 4 * reg> operands = [] {
    std::array<uint8_t, 4 * reg> bytes;
    bytes.fill(0x3f); // 63, or 0.75 in bf16
    return bytes;
  }();
  AmxShapes shapes;
  _tile_loadconfig(&shapes);
  const uint8_t *data = operands.data();
  for (int64_t round = 0; round < tileRounds; ++round) {
    _tile_loadd(4, data, line);
    _tile_loadd(6, data + reg, line);
    multiplyAmx<isInt8, 0, 4, 6>();
    _tile_loadd(7, data + 2 * reg, line);
    multiplyAmx<isInt8, 1, 4, 7>();
    _tile_loadd(5, data + 3 * reg, line);
    multiplyAmx<isInt8, 2, 5, 6>();
    multiplyAmx<isInt8, 3, 5, 7>();
  }
  _tile_release();
  return operationsOfRound<isInt8> * static_cast<double>(tileRounds);
}
#endif

Loops chooseLoops() {
#ifdef __x86_64__
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
    return {multiplyAdd16, readAll16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {multiplyAdd8, readAll8};
#endif
  return {multiplyAdd4, readAll4};
}

//===----------------------------------------------------------------------===//
// Trials
//===----------------------------------------------------------------------===//

/// Calls `work(thread)` on `threads` threads at once. Returns nanoseconds until
/// the last is done. If the system refuses a thread, fewer run.
template <typename Work> int64_t timeTogether(int threads, Work work) {
  std::atomic<bool> go{false};
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t)
    others.emplace_back([&, t] {
      while (!go.load(std::memory_order_acquire))
        std::this_thread::yield();
      work(t);
    });
  int64_t begin = now();
  go.store(true, std::memory_order_release);
  work(0);
  for (std::thread &other : others)
    other.join();
  return std::max<int64_t>(now() - begin, 1);
}

struct Piece {
  int64_t begin, end;
  double amount;
};

/// The amount of work of a thread between two moments. A piece that reaches
/// beyond them counts with its share.
double amountBetween(const std::vector<Piece> &pieces, int64_t begin,
                     int64_t end) {
  auto piece = std::lower_bound(
      pieces.begin(), pieces.end(), begin,
      [](const Piece &p, int64_t moment) { return p.end < moment; });
  double sum = 0;
  for (; piece != pieces.end() && piece->begin < end; ++piece) {
    int64_t inside = std::min(end, piece->end) - std::max(begin, piece->begin);
    sum += piece->amount * static_cast<double>(inside) /
           static_cast<double>(std::max<int64_t>(piece->end - piece->begin, 1));
  }
  return sum;
}

/// The best rate of all threads together, in units per nanosecond.
/// `work(thread, i)` does piece `i` and returns how many units it was.
double bestRate(int threads, int count,
                const std::function<double(int, int)> &work) {
  std::vector<std::vector<Piece>> pieces(static_cast<size_t>(threads));
  timeTogether(threads, [&](int thread) {
    auto &mine = pieces[static_cast<size_t>(thread)];
    mine.reserve(static_cast<size_t>(count));
    int64_t begin = now();
    for (int i = 0; i < count; ++i) {
      double amount = work(thread, i);
      int64_t end = now();
      mine.push_back({begin, end, amount});
      begin = end;
    }
  });
  // A window of this many pieces is so long that work of another thread at its
  // ends hardly matters.
  constexpr size_t window = 8;
  double best = 0;
  for (size_t i = 0; i + window <= pieces[0].size(); ++i) {
    int64_t begin = pieces[0][i].begin, end = pieces[0][i + window - 1].end;
    double sum = 0;
    for (const std::vector<Piece> &one : pieces)
      sum += amountBetween(one, begin, end);
    best = std::max(
        best, sum / static_cast<double>(std::max<int64_t>(end - begin, 1)));
  }
  return best;
}

/// The number of trials is so large that at some moment all threads have CPUs,
/// even on a busy machine.
double gflopsOf(const Loops &loops, int threads) {
  return bestRate(threads, 1000, [&](int, int) { return loops.multiplyAdd(); });
}

struct Free {
  void operator()(void *memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<float, Free>;

Memory allocate(int64_t bytes) {
  Memory memory(static_cast<float *>(
      std::aligned_alloc(4096, static_cast<size_t>(bytes))));
  if (memory)
    std::memset(static_cast<void *>(memory.get()), 1,
                static_cast<size_t>(bytes));
  return memory;
}

/// Each thread reads `bytes` of its own again and again, one piece at a time.
double readGBs(const Loops &loops, int threads, int64_t bytes, int64_t piece,
               int count) {
  std::vector<Memory> memory;
  for (int t = 0; t < threads; ++t) {
    memory.push_back(allocate(bytes));
    if (!memory.back())
      return 0;
  }
  constexpr auto item = static_cast<int64_t>(sizeof(float));
  return bestRate(threads, count, [&](int thread, int i) {
    loops.readAll(memory[static_cast<size_t>(thread)].get() +
                      i % (bytes / piece) * piece / item,
                  piece / item);
    return static_cast<double>(piece);
  });
}

/// Two threads wake each other in turns; each sleeps until the other wakes it.
double wakeMicroseconds() {
  constexpr int turns = 200;
  std::atomic<uint32_t> turn{0};
  auto play = [&](uint32_t mine) {
    for (int i = 0; i < turns; ++i) {
      uint32_t seen;
      while ((seen = turn.load()) % 2 != mine)
        ::syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr,
                  0);
      turn.fetch_add(1);
      ::syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
  };
  int64_t shortest = INT64_MAX;
  for (int trial = 0; trial < 3; ++trial)
    shortest = std::min(shortest, timeTogether(2, [&](int thread) {
                          play(static_cast<uint32_t>(thread));
                        }));
  return static_cast<double>(shortest) / (2 * turns) / 1e3;
}

/// Compares the CPU time that measurements got with that of their threads,
/// none of which sleeps.
class CpuShare {
public:
  template <typename Measure> double of(int threads, Measure measure) {
    int64_t begin = now(), used = cpuTime();
    double rate = measure();
    got += cpuTime() - used;
    wanted += threads * (now() - begin);
    return rate;
  }

  /// On a quiet machine, threads get all of it but what starting them takes.
  bool isDisturbed() const { return got < wanted - wanted / 10; }

private:
  static int64_t cpuTime() {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return int64_t(time.tv_sec) * 1000000000 + time.tv_nsec;
  }

  int64_t got = 0, wanted = 0; // nanoseconds
};

} // namespace

double measureGflops(int threads) { return gflopsOf(chooseLoops(), threads); }

double measureAmxGflops(bool int8, bool loaded, int threads) {
#ifdef __x86_64__
  return bestRate(threads, 1000, [&](int, int) {
    if (loaded)
      return int8 ? multiplyLoaded<true>() : multiplyLoaded<false>();
    return int8 ? multiplyRegisters<true>() : multiplyRegisters<false>();
  });
#else
  return 0;
#endif
}

double measureReadGBs(int threads, int64_t bytes) {
  constexpr int64_t largest = int64_t(1) << 20, atOnce = int64_t(2) << 30;
  int64_t part = bytes / threads, piece = std::min(part, largest);
  // Each thread reads four times its bytes, so often that at some moment all
  // threads have CPUs.
  int64_t most = atOnce / piece;
  auto count = static_cast<int>(
      std::clamp<int64_t>(4 * (part / piece), 200, std::max<int64_t>(most, 8)));
  return readGBs(chooseLoops(), threads, part, piece, count);
}

MachineLimits measureMachineLimits() {
  Loops loops = chooseLoops();
  CpuShare share;
  MachineLimits limits;
  int threads = 1;
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0)
    threads = std::min(std::max(CPU_COUNT(&set), 1), 256);
  constexpr int64_t inCache = int64_t(256) << 10, inMemory = int64_t(64) << 20;
  constexpr int64_t piece = int64_t(1) << 20;
  constexpr int pieces = inMemory / piece;
  limits.gflops = share.of(1, [&] { return gflopsOf(loops, 1); });
  limits.cacheGBs =
      share.of(1, [&] { return readGBs(loops, 1, inCache, inCache, 2000); });
  limits.memoryGBs = share.of(
      1, [&] { return readGBs(loops, 1, inMemory, piece, 4 * pieces); });
  if (threads > 1) {
    limits.gflopsAll =
        share.of(threads, [&] { return gflopsOf(loops, threads); });
    // Half a GiB does not fit the caches of many CPUs together either. The
    // threads' memory is filled by one of them, so it has no part in the share.
    limits.memoryGBsAll = readGBs(
        loops, threads, inMemory / std::max(1, threads / 8), piece, 4 * pieces);
    limits.wakeMicroseconds = wakeMicroseconds();
  }
  // Two hardware threads of one core may be slower together than one alone.
  limits.gflopsAll = std::max(limits.gflopsAll, limits.gflops);
  limits.memoryGBsAll = std::max(limits.memoryGBsAll, limits.memoryGBs);
  limits.disturbed = share.isDisturbed();
  return limits;
}

} // namespace anabranch::machine
