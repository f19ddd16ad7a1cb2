//===- RegionsTest.cpp - calls that run as regions of a team --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/host/DefaultThreads.h"
#include "runtime/execute/Execute.h"
#include "runtime/workers/CallsInFlight.h"
#include "support/runtime/TestStamp.h"
#include "support/runtime/TestSupport.h"
#include "support/runtime/TestTeam.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace anabranch::testing {

namespace {

/// A program with a call of the host between launches of many tiles.
class Regions : public ::testing::Test, public HostCalls {
protected:
  void SetUp() override {
    int x = m.input("x", {fixed(1000)});
    int a = m.arena(0, {fixed(1000)}, 4000), b = m.arena(4032, {fixed(4)}, 64);
    m.launch("increment", {x}, {a}, fixed(1000));
    m.launch("increment", {a}, {b}, fixed(4));
    CallT call;
    call.op = "test::see";
    m.push(std::move(call), 0);
    m.p.needs_libtorch = true;
    m.launch("increment", {b}, {m.output({fixed(4)})}, fixed(4));
    m.launch("increment", {a}, {m.output({fixed(1000)})}, fixed(1000));
    ASSERT_TRUE(writeTestPackage(folder.path + "/p", m).ok());
    OpenOptions options;
    options.hostCalls = this;
    options.threads = 3;
    auto opened = Executable::open(folder.path + "/p", options);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    executable = *opened;
  }
  bool works() {
    TensorArgument arg(iota(1000));
    InputValue value = arg.value();
    OutputValue outputs[2];
    VectorAllocator results;
    return executable->run(&value, 1, outputs, 2, results).ok() &&
           results.memory[0] == iota(4, 3) &&
           results.memory[1] == iota(1000, 2);
  }

  Expected<void *> prepare(const char *, const char *) override {
    return static_cast<void *>(this);
  }
  Status call(const HostCall &, HostResult *) override {
    EXPECT_EQ(TestTeam::isInside(), isInside);
    regionsBefore = TestTeam::count();
    if (forks)
      child = ::fork();
    return {};
  }
  void release(void *) override {}

  int regionsBefore = 0;
  bool isInside = false; ///< the calling thread is in a region
  bool forks = false;
  pid_t child = -1;
  ProgramMaker m;
  TemporaryFolder folder;
  std::shared_ptr<const Executable> executable;
};

TEST_F(Regions, EndBeforeTheHostAndBeginAfterIt) {
  runtime::setExecutionMode(runtime::ExecutionMode::Shared);
  TestTeam team(3);
  for (int i = 1; i <= 20; ++i) {
    ASSERT_TRUE(works());
    EXPECT_EQ(regionsBefore, 2 * i - 1);
    EXPECT_EQ(TestTeam::count(), 2 * i);
  }
  runtime::setExecutionMode(std::nullopt);
}

TEST_F(Regions, AreNotOpenedInsideOfARegion) {
  TestTeam team(3);
  TestTeam::isInside() = isInside = true;
  bool worked = works();
  TestTeam::isInside() = false;
  EXPECT_TRUE(worked);
  EXPECT_EQ(TestTeam::count(), 0);
}

/// With as many calls as cores, each stays on its own thread.
TEST_F(Regions, AreNotOpenedInACrowd) {
  TestTeam team(3);
  {
    int cores = machine::DefaultThreads::get().usableCores();
    std::vector<runtime::CallTurn *> places(std::max(cores, 2));
    std::vector<std::unique_ptr<runtime::CallTurn>> others;
    for (runtime::CallTurn *&place : places)
      others.push_back(
          std::make_unique<runtime::CallTurn>(place, /*waits=*/false));
    for (int i = 0; i < 20; ++i)
      ASSERT_TRUE(works());
    EXPECT_EQ(TestTeam::count(), 0);
  }
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (TestTeam::count() == 0 && std::chrono::steady_clock::now() < end)
    ASSERT_TRUE(works());
  EXPECT_GT(TestTeam::count(), 0);
}

/// The child finishes the call: outside of a region no other thread holds a
/// part of it.
TEST_F(Regions, AreNotOpenedInAChildThatTheHostForked) {
  if (underThreadSanitizer)
    GTEST_SKIP() << "forks";
  runtime::setExecutionMode(runtime::ExecutionMode::Shared);
  TestTeam team(3);
  forks = true;
  bool worked = works();
  forks = false;
  if (child == 0)
    ::_exit(worked && works() && TestTeam::count() == 1 ? 0 : 1);
  EXPECT_TRUE(worked);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(works());
  runtime::setExecutionMode(std::nullopt);
}

} // namespace
} // namespace anabranch::testing
