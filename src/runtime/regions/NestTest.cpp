//===- NestTest.cpp - regions in regions take turns -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/execute/Execute.h"
#include "runtime/workers/CallsInFlight.h"
#include "support/runtime/TestSupport.h"
#include "support/runtime/TestTeam.h"

#include <chrono>

namespace anabranch::testing {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t size = 1024; // floats of whole cache lines

/// Three regions in each other. Each has work to share, and the innermost one
/// calls the host.
class Nest : public ::testing::Test, public HostCalls {
protected:
  /// A program whose results are its input plus two, around a branch to the
  /// `inner` region if there is one, and around a call of the host otherwise.
  static ProgramMaker level(int inner, ProgramMaker m = {}) {
    int x = m.input("x", {fixed(size)});
    int before = m.arena(0, {fixed(size)}, size * 4);
    int after = before;
    m.launch("increment", {x}, {before}, fixed(size));
    if (inner < 0) {
      CallT call;
      call.op = "test::wait";
      m.push(std::move(call), 0);
      m.p.needs_libtorch = true;
    } else {
      after = m.arena(size * 4, {fixed(size)}, size * 4);
      BranchT &branch = m.branch(x, {inner, inner}, {before}, {after});
      branch.predicate->kind = ArgKind::Int;
      branch.predicate->int_value = std::make_unique<Size>(fixed(1));
    }
    m.launch("increment", {after}, {m.output({fixed(size)})}, fixed(size));
    return m;
  }

  /// A region runs only regions of higher numbers.
  void SetUp() override {
    ProgramMaker m;
    m.region(level(1));
    m.region(level(2));
    m.region(level(-1));
    OpenOptions options;
    options.hostCalls = this;
    options.threads = 2;
    executable = folder.open(level(0, std::move(m)), options);
    ASSERT_TRUE(executable);
  }

  std::string run() {
    TensorArgument arg(iota(size));
    InputValue value = arg.value();
    OutputValue output;
    VectorAllocator results;
    Status done = executable->run(&value, 1, &output, 1, results);
    if (!done.ok())
      return done.message();
    return results.memory[0] == iota(size, 8) ? "" : "wrong values";
  }

  Expected<void *> prepare(const char *, const char *) override {
    return static_cast<void *>(this);
  }
  /// Long enough that the call waits for its turn next time.
  Status call(const HostCall &, HostResult *) override {
    crowds += runtime::CallsInFlight::get().isCrowded();
    ++hostCalls;
    for (auto end = Clock::now() + std::chrono::milliseconds(3);
         Clock::now() < end;) {
    }
    return {};
  }
  void release(void *) override {}

  std::atomic<int> crowds{0}, hostCalls{0};
  PackageFolder folder;
  std::shared_ptr<const Executable> executable;
};

/// A call is one call, however deep its regions are.
TEST_F(Nest, IsNoCrowd) {
  TestTeam team(2);
  for (int i = 0; i < 10; ++i)
    ASSERT_EQ(run(), "");
  EXPECT_EQ(hostCalls, 10);
  EXPECT_EQ(crowds, 0);
}

/// A region runs on the team of the call around it. Each of the four levels
/// shares two launches, one on each side of what it calls.
TEST_F(Nest, BorrowsTheTeamAtEachLevel) {
  TestTeam team(2);
  runtime::setExecutionMode(runtime::ExecutionMode::Shared);
  EXPECT_EQ(run(), "");
  runtime::setExecutionMode(std::nullopt);
  EXPECT_EQ(TestTeam::count(), 8);
}

/// More callers than CPUs: a caller that waits for its turn holds none.
TEST_F(Nest, OfManyCallersEnds) {
  expectOnThreads(6, [&](unsigned) {
    std::string wrong;
    for (int i = 0; i < 20 && wrong.empty(); ++i)
      wrong = run();
    return wrong;
  });
  EXPECT_EQ(hostCalls, 120);
}

} // namespace
} // namespace anabranch::testing
