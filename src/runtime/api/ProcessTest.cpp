//===- ProcessTest.cpp - forks, and the CPU that waiting costs ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/runtime/TestRandomCalls.h"

#include <atomic>
#include <chrono>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>

namespace anabranch::testing {

namespace {

class Processes : public RandomPackages, public ::testing::Test {
protected:
  void SetUp() override {
    if (underThreadSanitizer)
      GTEST_SKIP() << "forks, and threads that idle";
    setDefaultThreads(3);
    executable = open(program);
    ASSERT_TRUE(executable);
  }

  /// Runs some calls. Empty if all results are right.
  std::string runSome(int calls) {
    RandomCall call(program);
    for (int i = 0; i < calls; ++i) {
      if (Status s = call.run(*executable); !s.ok())
        return s.message();
      if (std::string wrong = call.wrong(); !wrong.empty())
        return wrong;
    }
    return {};
  }

  /// True if a forked child can run the program too. A child that hangs is
  /// killed.
  bool childWorks() {
    pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      ::_exit(runSome(5).empty() ? 0 : 1);
    }
    int status = -1;
    return ::waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
  }

  RandomProgram program{7, {40, 6, 6, true}};
  std::shared_ptr<const Executable> executable;
};

TEST_F(Processes, AChildRunsSeveralStreams) {
  EXPECT_TRUE(childWorks()) << "before the parent has a pool, or after";
  EXPECT_EQ(runSome(5), "");
  EXPECT_TRUE(childWorks());
  EXPECT_EQ(runSome(5), "");
}

TEST_F(Processes, AForkDuringACallOfAnotherThread) {
  std::atomic<bool> over{false};
  std::string wrong;
  std::thread busy([&] {
    while (!over && wrong.empty())
      wrong = runSome(1);
  });
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(childWorks()) << "fork " << i;
  over = true;
  busy.join();
  EXPECT_EQ(wrong, "");
}

/// A child has no pool yet, so each of these forks meets the first calls of a
/// process, and a thread that opens packages.
TEST_F(Processes, AForkDuringTheFirstCallsOfAProcess) {
  for (int i = 0; i < 20; ++i) {
    pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      std::thread opening([&] { open(program); });
      std::thread calling([&] { runSome(2); });
      ::usleep(static_cast<useconds_t>(i * 50));
      bool works = childWorks();
      opening.join();
      calling.join();
      ::_exit(works ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "fork " << i;
  }
}

double cpuMilliseconds() {
  rusage use;
  ::getrusage(RUSAGE_SELF, &use);
  auto of = [](const timeval &t) {
    return static_cast<double>(t.tv_sec) * 1e3 +
           static_cast<double>(t.tv_usec) * 1e-3;
  };
  return of(use.ru_utime) + of(use.ru_stime);
}

TEST_F(Processes, IdleWorkersCostNoCPU) {
  EXPECT_EQ(runSome(20), "");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  double before = cpuMilliseconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_LT(cpuMilliseconds() - before, 2);
}

/// After each call its workers spin for some microseconds, no longer.
TEST_F(Processes, WorkersThatFindNothingSleepSoon) {
  RandomCall call(program);
  ASSERT_TRUE(call.run(*executable).ok());
  double before = cpuMilliseconds();
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(call.run(*executable).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_LT(cpuMilliseconds() - before, 150) << "of 200 ms on each CPU";
}

/// If a worker loses its core for long, the caller sleeps until it is back.
TEST_F(Processes, WaitingForAWorkerCostsNoCPU) {
  RandomCall call(program);
  ASSERT_TRUE(call.run(*executable).ok());
  int naps = 0;
  double before = cpuMilliseconds();
  for (int64_t id = 0; id < 40 && naps < 3; ++id) {
    if (call.entry(static_cast<size_t>(id)).tiles < 2)
      continue;
    ASSERT_TRUE(call.run(*executable, -1 - id).ok());
    ++naps;
    EXPECT_EQ(call.wrong(), "");
  }
  EXPECT_EQ(naps, 3);
  EXPECT_LT(cpuMilliseconds() - before, naps * STAMP_NAP * 1e-3 / 5);
}

} // namespace
} // namespace anabranch::testing
