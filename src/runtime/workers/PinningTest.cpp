//===- PinningTest.cpp - where workers run --------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "anabranch/anabranch.h"
#include "runtime/workers/WorkerPool.h"
#include "support/runtime/TestRandomCalls.h"

#include <chrono>
#include <fstream>
#include <functional>
#include <sched.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace anabranch::testing {

namespace {

cpu_set_t cpusOf(pid_t thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(thread, sizeof(set), &set);
  return set;
}

/// The thread ids of this process's workers.
std::vector<pid_t> workers() {
  std::vector<pid_t> found;
  for (const auto &task :
       std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream file(task.path() / "comm");
    std::getline(file, name);
    if (name.rfind("anabranch-", 0) == 0)
      found.push_back(std::stoi(task.path().filename().string()));
  }
  return found;
}

class Pinning : public RandomPackages, public ::testing::Test {
protected:
  void SetUp() override {
    setDefaultThreads(3);
    executable = open(program);
    ASSERT_TRUE(executable);
    allowed = cpusOf(::getpid());
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0; --cpu)
      if (CPU_ISSET(cpu, &allowed))
        first = cpu;
  }
  void TearDown() override { EXPECT_TRUE(pinWorkers("off").ok()); }

  bool works() {
    RandomCall call(program);
    return call.run(*executable).ok() && call.wrong().empty();
  }

  /// Waits until workers have moved. They do when they next look for work,
  /// which `ask` gives them.
  bool soon(const std::function<bool(const cpu_set_t &)> &holds,
            const std::function<void()> &ask) {
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < end) {
      ask();
      std::vector<pid_t> all = workers();
      if (all.size() >= 2 &&
          std::all_of(all.begin(), all.end(),
                      [&](pid_t worker) { return holds(cpusOf(worker)); }))
        return true;
    }
    return false;
  }

  bool soon(const std::function<bool(const cpu_set_t &)> &holds) {
    return soon(holds, [&] { EXPECT_TRUE(works()); });
  }

  bool onFirst(const cpu_set_t &set) const {
    return CPU_COUNT(&set) == 1 && CPU_ISSET(first, &set);
  }

  bool isAllowed(const cpu_set_t &set) const {
    cpu_set_t inside;
    CPU_AND(&inside, &set, &allowed);
    return CPU_EQUAL(&inside, &set) && CPU_COUNT(&set) > 0;
  }

  RandomProgram program{7, {40, 6, 6, false}};
  std::shared_ptr<const Executable> executable;
  cpu_set_t allowed;
  int first = 0;
};

TEST_F(Pinning, BindsWorkersAndNeverTheCaller) {
  ASSERT_TRUE(works());
  cpu_set_t mine = cpusOf(0);
  ASSERT_TRUE(pinWorkers(std::to_string(first)).ok());
  EXPECT_TRUE(soon([&](const cpu_set_t &set) { return onFirst(set); }));
  cpu_set_t now = cpusOf(0);
  EXPECT_TRUE(CPU_EQUAL(&mine, &now));
  ASSERT_TRUE(pinWorkers("off").ok());
  // All CPUs that are allowed, perhaps without the caller's.
  EXPECT_TRUE(soon([&](const cpu_set_t &set) {
    return isAllowed(set) && CPU_COUNT(&set) >= CPU_COUNT(&allowed) - 1;
  }));
  ASSERT_TRUE(pinWorkers("cores").ok());
  EXPECT_TRUE(soon([&](const cpu_set_t &set) { return isAllowed(set); }));
}

/// A call that is open and has no work.
class Idle : public runtime::Job {
public:
  Idle() : Job(2) {}
  bool work(runtime::WorkerScratch &) override { return false; }
};

/// The workers leave even if the scheduler keeps putting them there. The caller
/// sleeps while its call is open, so that workers run on its CPU meanwhile: a
/// program's calls may be too short for that, or run without workers.
TEST_F(Pinning, WorkersLeaveTheCpuOfTheCaller) {
  if (CPU_COUNT(&allowed) < 2)
    GTEST_SKIP() << "there is one CPU";
  ASSERT_TRUE(works());
  std::thread caller([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
    Idle job;
    runtime::WorkerPool &pool = runtime::WorkerPool::get();
    int place = pool.enter(job);
    ASSERT_GE(place, 0);
    auto hasLeft = [&](const cpu_set_t &set) {
      return isAllowed(set) && !CPU_ISSET(first, &set);
    };
    EXPECT_TRUE(soon(hasLeft, [&] {
      for (pid_t worker : workers())
        if (!hasLeft(cpusOf(worker)))
          ::sched_setaffinity(worker, sizeof(one), &one);
      pool.notify(pool.size());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }));
    pool.leave(place);
  });
  caller.join();
}

TEST_F(Pinning, RefusesWhatIsNoListOfAllowedCpus) {
  for (const char *wrong : {"", "on", "core", "1,", ",1", "3-1", "0-", "-",
                            "0 ", "0,x", "1-2-3", " 0"})
    EXPECT_NE(pinWorkers(wrong).message().find("must be off, cores or"),
              std::string::npos)
        << wrong;
  int missing = 0;
  while (missing < CPU_SETSIZE && CPU_ISSET(missing, &allowed))
    ++missing;
  for (const std::string &wrong :
       {std::to_string(missing), "0-" + std::to_string(missing),
        std::string("99999999999999999999")}) {
    Status s = pinWorkers(wrong);
    EXPECT_EQ(s.code(), StatusCode::InvalidArgument);
    EXPECT_NE(s.message().find("may use the CPUs"), std::string::npos) << wrong;
  }
  anabranch_status *status = anabranch_pin_workers("nowhere");
  EXPECT_EQ(anabranch_status_code_of(status), ANABRANCH_INVALID_ARGUMENT);
  anabranch_status_free(status);
  EXPECT_EQ(anabranch_pin_workers("off"), nullptr);
}

TEST_F(Pinning, HoldsInAChild) {
  if (underThreadSanitizer)
    GTEST_SKIP() << "forks";
  ASSERT_TRUE(pinWorkers(std::to_string(first)).ok());
  pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::_exit(soon([&](const cpu_set_t &set) { return onFirst(set); }) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

} // namespace
} // namespace anabranch::testing
