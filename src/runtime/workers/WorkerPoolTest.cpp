//===- WorkerPoolTest.cpp - help, sleep, fork -----------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/workers/WorkerPool.h"

#include "support/runtime/TestStamp.h"
#include "support/runtime/TestSupport.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace anabranch::testing {

using runtime::Job;
using runtime::WorkerPool;
using runtime::WorkerScratch;

namespace {

/// A job that hands out numbers below `limit`.
class Counting : public Job {
public:
  Counting(int helpers, int limit) : Job(helpers), limit(limit) {}
  bool work(WorkerScratch &scratch) override {
    if (next.load() >= limit || next.fetch_add(1) >= limit)
      return false;
    EXPECT_NE(scratch.reserve(1000), nullptr);
    ++done;
    return true;
  }
  const int limit;
  std::atomic<int> next{0}, done{0};
};

/// Two workers do a job while this thread waits. A worker that has just moved
/// away from a caller's CPU, and meets this thread on its new one, sleeps until
/// the next news.
void doWithHelp(WorkerPool &pool) {
  Counting job(2, 100);
  int place = pool.enter(job);
  ASSERT_GE(place, 0);
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (job.done != 100 && std::chrono::steady_clock::now() < end) {
    pool.notify(2);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(job.done, 100);
  pool.leave(place);
}

TEST(WorkerPool, HelpsAlsoAfterASleep) {
  WorkerPool &pool = WorkerPool::get();
  pool.ensure(2);
  EXPECT_GE(pool.size(), 2);
  for (int pauseMs : {0, 0, 2, 2}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(pauseMs));
    ASSERT_NO_FATAL_FAILURE(doWithHelp(pool));
  }
}

TEST(WorkerPool, MoreJobsThanPlacesGoOnAlone) {
  WorkerPool &pool = WorkerPool::get();
  std::vector<std::unique_ptr<Counting>> jobs;
  std::vector<int> places;
  for (int i = 0; i < 40; ++i) {
    jobs.push_back(std::make_unique<Counting>(1, 0));
    places.push_back(pool.enter(*jobs.back()));
  }
  EXPECT_EQ(places[0], 0);
  EXPECT_EQ(places.back(), -1);
  for (int place : places)
    if (place >= 0)
      pool.leave(place);
}

/// A job that has work until all such jobs together have done this many pieces.
class Endless : public Job {
public:
  static constexpr int limit = 100000;
  explicit Endless(std::atomic<int> &all) : Job(100), all(all) {}
  bool work(WorkerScratch &) override {
    if (all >= limit)
      return false;
    ++pieces;
    ++all;
    return true;
  }
  std::atomic<int> &all;
  std::atomic<int> pieces{0};
};

TEST(WorkerPool, SharesItsWorkersAmongAllJobs) {
  WorkerPool &pool = WorkerPool::get();
  pool.ensure(1);
  std::atomic<int> all{0};
  std::vector<std::unique_ptr<Endless>> jobs;
  std::vector<int> places;
  for (int i = 0; i < 12; ++i) {
    jobs.push_back(std::make_unique<Endless>(all));
    places.push_back(pool.enter(*jobs.back()));
    ASSERT_GE(places.back(), 0);
  }
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (all < Endless::limit && std::chrono::steady_clock::now() < end) {
    pool.notify(pool.size());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (int place : places)
    pool.leave(place);
  // Threads take turns on one CPU in slices that the sanitizer fills with few
  // pieces.
  int least = underThreadSanitizer ? 0 : all / 12 / 4;
  for (auto &job : jobs)
    EXPECT_GT(job->pieces, least);
}

TEST(WorkerPool, StartsAgainAfterAFork) {
  if (underThreadSanitizer)
    GTEST_SKIP() << "forks";
  TemporaryFolder folder;
  ProgramMaker m;
  int x = m.input("x", {fixed(1000)});
  m.launch("increment", {x}, {m.output({fixed(1000)})}, fixed(1000));
  ASSERT_TRUE(writeTestPackage(folder.path + "/p", m).ok());
  OpenOptions options;
  options.threads = 3;
  auto executable = Executable::open(folder.path + "/p", options);
  ASSERT_TRUE(executable.ok());
  TensorArgument arg(iota(1000));
  InputValue value = arg.value();
  auto works = [&] {
    VectorAllocator results;
    OutputValue out;
    for (int i = 0; i < 100; ++i)
      if (!(*executable)->run(&value, 1, &out, 1, results).ok() ||
          results.memory[0] != iota(1000, 1))
        return false;
    return true;
  };
  EXPECT_TRUE(works());
  pid_t child = ::fork();
  if (child == 0)
    ::_exit(works() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(works());
}

/// A host that forks in the middle of a call, once a worker is in a tile of it.
class ForkingHost : public HostCalls {
public:
  explicit ForkingHost(stamp_entry *entry) : entry(entry) {}
  Expected<void *> prepare(const char *, const char *) override {
    return static_cast<void *>(this);
  }
  Status call(const HostCall &, HostResult *) override {
    while (__atomic_load_n(&entry->inside, __ATOMIC_RELAXED) == 0)
      std::this_thread::yield();
    child = ::fork();
    return {};
  }
  void release(void *) override {}
  stamp_entry *const entry;
  pid_t child = -1;
};

TEST(WorkerPool, AChildForkedInACallGetsAnErrorInsteadOfHanging) {
  if (underThreadSanitizer)
    GTEST_SKIP() << "forks";
  ProgramMaker m;
  constexpr int words = STAMP_HEADER_WORDS + STAMP_ENTRY_WORDS;
  int log = m.input("log", {fixed(words)}, package::DType::I64);
  int made = m.arena(0, {fixed(STAMP_ELEMENTS)}, 4 * STAMP_ELEMENTS);
  int side = m.stream();
  m.launch("stamped", {log}, {made}, fixed(2), side);
  auto &launch = *m.p.streams[side]->commands[0]->action.AsLaunch();
  launch.sizes = {fixed(2), fixed(0), fixed(0)};
  m.record(0, side);
  CallT call;
  call.op = "test::fork";
  m.push(std::move(call), 0);
  m.p.needs_libtorch = true;
  m.wait(0, 0);
  m.copy(made, m.output({fixed(STAMP_ELEMENTS)}));
  std::vector<int64_t> memory(words, 0);
  reinterpret_cast<stamp_header *>(memory.data())->stalls = -1; // command 0
  reinterpret_cast<stamp_header *>(memory.data())->fails = -1;
  ForkingHost host(stamp_entry_of(memory.data(), 0));
  TemporaryFolder folder;
  ASSERT_TRUE(writeTestPackage(folder.path + "/p", m).ok());
  OpenOptions options;
  options.threads = 2;
  options.hostCalls = &host;
  auto executable = Executable::open(folder.path + "/p", options);
  ASSERT_TRUE(executable.ok()) << executable.status().message();
  const int64_t shape[] = {words};
  InputValue input;
  input.tensor = {memory.data(), shape, nullptr, 1, anabranch::DType::I64};
  OutputValue output;
  VectorAllocator results;
  Status s = (*executable)->run(&input, 1, &output, 1, results);
  if (host.child == 0)
    ::_exit(s.code() == StatusCode::Unsupported ? 0 : 1);
  EXPECT_TRUE(s.ok()) << s.message();
  int status = -1;
  ASSERT_EQ(::waitpid(host.child, &status, 0), host.child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int runningWorkers() {
  int count = 0;
  for (const auto &task :
       std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream file(task.path() / "comm");
    std::getline(file, name);
    count += name.rfind("anabranch-", 0) == 0;
  }
  return count;
}

/// Whether this many workers run before long, and go on running. A worker that
/// begins or ends is counted for a moment.
bool soonRunning(int wanted) {
  constexpr int steady = 20;
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  int matches = 0;
  while (matches < steady && std::chrono::steady_clock::now() < end) {
    matches = runningWorkers() == wanted ? matches + 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return matches == steady;
}

TEST(WorkerPool, ShrinksAndGrowsAgain) {
  WorkerPool &pool = WorkerPool::get();
  for (int round = 0; round < 20; ++round) {
    pool.ensure(5);
    EXPECT_EQ(pool.size(), std::max(pool.size(), 5));
    WorkerPool::shrink(2);
    EXPECT_EQ(pool.size(), 2);
    if (round % 2)
      EXPECT_TRUE(soonRunning(2));
    ASSERT_NO_FATAL_FAILURE(doWithHelp(pool));
  }
  pool.ensure(3);
  EXPECT_TRUE(soonRunning(3));
  WorkerPool::shrink(0);
  EXPECT_TRUE(soonRunning(0));
}

TEST(Threads, ALowerDefaultEndsWorkers) {
  WorkerPool::get().ensure(4);
  setDefaultThreads(3);
  EXPECT_TRUE(soonRunning(2));
  setDefaultThreads(1);
  EXPECT_TRUE(soonRunning(0));
  setDefaultThreads(0);
}

TEST(Threads, ChoiceIsKeptInBounds) {
  EXPECT_GE(defaultThreads(), 1);
  setDefaultThreads(3);
  EXPECT_EQ(defaultThreads(), 3);
  setDefaultThreads(1 << 30);
  EXPECT_LE(defaultThreads(), 1024);
  setDefaultThreads(-1);
  EXPECT_GE(defaultThreads(), 1);
}

} // namespace
} // namespace anabranch::testing
