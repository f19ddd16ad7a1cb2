//===- NamedEventsTest.cpp - calls that wait for calls of other programs --===//
// SPDX-License-Identifier: Apache-2.0

#include "support/runtime/TestSupport.h"

#include <atomic>
#include <chrono>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace anabranch::testing {

namespace {

void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

/// A host with one operator without results, which blocks until the gate opens.
class GateHost : public HostCalls {
public:
  Expected<void *> prepare(const char *, const char *) override {
    return static_cast<void *>(this);
  }
  Status call(const HostCall &, HostResult *) override {
    ++entered;
    while (!open)
      std::this_thread::yield();
    return fails ? Status(StatusCode::HostError, "the gate fails") : Status();
  }
  void release(void *) override {}

  std::atomic<bool> open{false}, fails{false};
  std::atomic<int> entered{0};
};

class NamedEventsTest : public ::testing::Test {
protected:
  using Tags = std::vector<std::string>;

  std::shared_ptr<const Executable> program(Tags awaits, Tags records,
                                            bool gate) {
    ProgramMaker m;
    int x = m.input("x", {fixed(16)});
    m.launch("increment", {x}, {m.output({fixed(16)})}, fixed(16));
    if (gate) {
      CallT call;
      call.op = "test::gate";
      m.push(std::move(call), 0).location = m.location("gate");
      m.p.needs_libtorch = true;
    }
    m.p.awaits = std::move(awaits);
    m.p.records = std::move(records);
    std::string path = folder.path + "/p" + std::to_string(count++);
    Status written = writeTestPackage(path, m);
    EXPECT_TRUE(written.ok()) << written.message();
    OpenOptions options;
    options.hostCalls = &host;
    options.threads = 1;
    auto executable = Executable::open(path, options);
    EXPECT_TRUE(executable.ok()) << executable.status().message();
    return executable ? *executable : nullptr;
  }

  static Status run(const Executable &executable) {
    TensorArgument x(iota(16));
    InputValue value = x.value();
    OutputValue out;
    VectorAllocator results;
    return executable.run(&value, 1, &out, 1, results);
  }

  TemporaryFolder folder;
  GateHost host;
  int count = 0;
};

TEST_F(NamedEventsTest, ACallBeginsAfterTheRecordingCallOfAnotherThread) {
  auto recording = program({}, {"tag"}, true);
  auto waiting = program({"tag"}, {}, false);
  auto other = program({"other"}, {}, false);
  for (bool fails : {false, true}) {
    host.open = false;
    host.fails = fails;
    int entered = host.entered;
    std::atomic<bool> done{false};
    std::thread first([&] { EXPECT_EQ(run(*recording).ok(), !fails); });
    while (host.entered == entered)
      std::this_thread::yield();
    std::thread second([&] {
      EXPECT_TRUE(run(*waiting).ok());
      done = true;
    });
    EXPECT_TRUE(run(*other).ok()) << "waits for nobody";
    nap();
    EXPECT_FALSE(done) << "the recording call is still there";
    host.open = true;
    first.join();
    second.join();
    EXPECT_TRUE(done) << "an error ends a call, too";
  }
}

TEST_F(NamedEventsTest, OnlyCallsThatBeganEarlierAreWaitedFor) {
  // Each program waits for the tag that the other one records.
  auto left = program({"a"}, {"b"}, true), right = program({"b"}, {"a"}, true);
  host.open = true;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i)
        EXPECT_TRUE(run(t % 2 ? *left : *right).ok());
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(host.entered, 1200);
}

TEST_F(NamedEventsTest, ATagThatNoCallRecordsHoldsNobody) {
  EXPECT_TRUE(run(*program({"nobody records this"}, {}, false)).ok());
}

TEST_F(NamedEventsTest, AChildDoesNotWaitForCallsOfItsParent) {
  if (underThreadSanitizer)
    GTEST_SKIP() << "forks";
  auto recording = program({}, {"tag"}, true);
  auto waiting = program({"tag"}, {"tag"}, false);
  std::thread first([&] { EXPECT_TRUE(run(*recording).ok()); });
  while (host.entered == 0)
    std::this_thread::yield();
  pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::_exit(run(*waiting).ok() && run(*waiting).ok() ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  host.open = true;
  first.join();
  EXPECT_TRUE(run(*waiting).ok());
}

} // namespace
} // namespace anabranch::testing
