//===- DefaultThreadsTest.cpp - who chooses the workers -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/host/DefaultThreads.h"

#include "machine/host/AvailableCpus.h"
#include "machine/host/MachineReport.h"
#include "support/machine/TestMachine.h"

#include <climits>
#include <gtest/gtest.h>

namespace anabranch::testing {

using namespace machine;

namespace {

ThreadFacts machineOf(int cpus, int cores, double quota) {
  ThreadFacts facts;
  facts.cpus = cpus;
  facts.cores = cores;
  facts.quota = quota;
  return facts;
}

TEST(DefaultThreads, CoresAndTheWholeCpusOfTheQuota) {
  for (auto [cpus, cores, quota, wanted, rule] :
       {std::tuple(8, 8, 0.0, 8, ThreadRule::Cores),
        {8, 4, 0.0, 4, ThreadRule::Cores},
        {8, 4, 4.0, 4, ThreadRule::Cores},
        {8, 4, 100.0, 4, ThreadRule::Cores},
        {8, 4, 3.99, 3, ThreadRule::Quota},
        {8, 8, 2.0, 2, ThreadRule::Quota},
        {8, 8, 0.5, 1, ThreadRule::Quota},
        {1, 1, 0.5, 1, ThreadRule::Quota},
        {1000, 1000, 0.0, 256, ThreadRule::Cores}}) {
    ThreadChoice choice = chooseThreads(machineOf(cpus, cores, quota));
    EXPECT_EQ(choice.threads, wanted) << cpus << " " << cores << " " << quota;
    EXPECT_EQ(choice.rule, rule);
  }
}

TEST(DefaultThreads, WhoSaysMoreExactlyIsHeard) {
  ThreadFacts facts = machineOf(16, 8, 2);
  facts.openMp = 3;
  EXPECT_EQ(chooseThreads(facts).rule, ThreadRule::OpenMp);
  EXPECT_EQ(chooseThreads(facts).threads, 3);
  facts.framework = 3; // OMP_NUM_THREADS, which the framework reads too
  EXPECT_EQ(chooseThreads(facts).rule, ThreadRule::OpenMp);
  facts.framework = 5;
  EXPECT_EQ(chooseThreads(facts).rule, ThreadRule::Framework);
  EXPECT_EQ(chooseThreads(facts).threads, 5);
  facts.variable = 6;
  EXPECT_EQ(chooseThreads(facts).rule, ThreadRule::Variable);
  EXPECT_EQ(chooseThreads(facts).threads, 6);
  facts.call = 7;
  EXPECT_EQ(chooseThreads(facts).rule, ThreadRule::Call);
  EXPECT_EQ(chooseThreads(facts).threads, 7);
}

TEST(DefaultThreads, AFrameworksOwnDefaultIsNoChoice) {
  ThreadFacts facts = machineOf(16, 8, 2);
  for (int own : {0, 8, 16, 64}) {
    facts.framework = own;
    EXPECT_EQ(chooseThreads(facts).threads, 2) << own;
  }
  facts.framework = 1;
  EXPECT_EQ(chooseThreads(facts).threads, 1);
}

TEST(DefaultThreads, NumbersAsText) {
  for (const char *wrong : {"", "0", "-1", "x", "2x", " 2", "1.5", ",2"}) {
    EXPECT_EQ(threadsIn(wrong), 0) << wrong;
    EXPECT_EQ(openMpThreadsIn(wrong), 0) << wrong;
  }
  EXPECT_EQ(threadsIn(nullptr), 0);
  EXPECT_EQ(openMpThreadsIn(nullptr), 0);
  EXPECT_EQ(threadsIn("4,2"), 0);
  EXPECT_EQ(openMpThreadsIn("4,2"), 4);
  EXPECT_EQ(openMpThreadsIn("4"), 4);
  EXPECT_EQ(threadsIn("99999"), 256);
}

void limit(FakeMachine &machine, const std::string &quota) {
  machine.isIn("0::/pod\n");
  machine.mount("/", "/cg");
  machine.write("/cg/pod/cpu.max", quota + " 100000\n");
}

/// A pod is resized in place.
TEST(DefaultThreads, FollowsTheMachine) {
  FakeMachine machine;
  limit(machine, "max");
  DefaultThreads threads(machine.root());
  auto cores = static_cast<int>(affinityOfProcess().size());
  EXPECT_EQ(threads.facts().cores, cores);
  EXPECT_EQ(threads.spinLimit(), INT_MAX);
  EXPECT_FALSE(threads.hasShrunk());
  machine.write("/cg/pod/cpu.max", "50000 100000\n");
  threads.look();
  EXPECT_EQ(threads.facts().quota, 0.5);
  EXPECT_EQ(threads.usableCpus(), 1);
  EXPECT_EQ(chooseThreads(threads.facts()).threads, 1);
  EXPECT_EQ(threads.spinLimit(), 0);
  EXPECT_EQ(threads.hasShrunk(), cores > 1);
  EXPECT_FALSE(threads.hasShrunk());
  machine.write("/cg/pod/cpu.max", "max 100000\n");
  threads.look();
  EXPECT_EQ(threads.facts().quota, 0);
  EXPECT_EQ(threads.usableCpus(), cores);
  EXPECT_LE(threads.usableCores(), threads.usableCpus());
  EXPECT_FALSE(threads.hasShrunk());
}

/// Only the rule of the quota shares out its part of a CPU.
TEST(DefaultThreads, ACallMayHaveOneMoreThanTheQuotasWholeCpus) {
  if (affinityOfProcess().size() < 2)
    GTEST_SKIP() << "there is one CPU";
  FakeMachine machine;
  limit(machine, "150000");
  DefaultThreads threads(machine.root());
  EXPECT_EQ(threads.threads(), 1);
  EXPECT_EQ(threads.threadsOfCall(), 2);
  EXPECT_EQ(threads.usableCpus(), 2);
  threads.setCall(1);
  EXPECT_EQ(threads.threadsOfCall(), 1);
  threads.setCall(0);
  machine.write("/cg/pod/cpu.max", "100000 100000\n");
  threads.look();
  EXPECT_EQ(threads.threadsOfCall(), 1);
}

TEST(DefaultThreads, TheFrameworkIsAskedEachTime) {
  static int count;
  DefaultThreads threads;
  threads.setFramework([] { return count; });
  for (count = 1; count < 4; ++count)
    EXPECT_EQ(threads.facts().framework, count);
  threads.setFramework(nullptr);
  EXPECT_EQ(threads.facts().framework, 0);
}

TEST(DefaultThreads, ReportSaysWhy) {
  FakeMachine machine;
  limit(machine, "50000");
  machine.write("/cg/memory.max", "536870912\n");
  DefaultThreads threads(machine.root());
  std::string text = reportMachine(threads, machine.root());
  for (const std::string &line :
       {"CPU quota: 0.5 CPUs, by " + machine.root() + "/cg/pod/cpu.max\n",
        "memory limit: 512 MiB, by " + machine.root() + "/cg/memory.max\n",
        std::string("throttled periods: 0\n"),
        std::string("torch.get_num_threads(): not known")})
    EXPECT_NE(text.find(line), std::string::npos) << text;
  threads.setCall(3);
  text = reportMachine(threads, machine.root());
  EXPECT_NE(text.find("threads of a call: 3, as the program set it\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("idle workers: sleep at once"), std::string::npos);
}

TEST(SpinRoom, AsManyAsTheQuotaHasWholeCpus) {
  SpinRoom room;
  room.look(0, 0);
  EXPECT_EQ(room.limit(), INT_MAX);
  room.look(2.5, 0);
  EXPECT_EQ(room.limit(), 2);
  room.look(0.5, 0);
  EXPECT_EQ(room.limit(), 0);
}

/// Spinning pauses for longer each time that throttling follows it.
TEST(SpinRoom, WaitsAfterThrottling) {
  SpinRoom room;
  int64_t periods = 70; // the group was throttled before this process began
  room.look(4, periods);
  EXPECT_EQ(room.limit(), 4);
  int waited = 0, before = 0;
  for (int round = 0; round < 8; ++round) {
    room.look(4, ++periods);
    for (waited = 0; room.limit() == 0; ++waited)
      room.look(4, periods);
    EXPECT_EQ(room.limit(), 4);
    EXPECT_TRUE(waited == 64 || waited > before) << waited;
    before = waited;
  }
  EXPECT_EQ(waited, 64);
  for (int i = 0; i < 100; ++i)
    room.look(4, periods);
  room.look(4, ++periods);
  for (waited = 0; room.limit() == 0; ++waited)
    room.look(4, periods);
  EXPECT_LT(waited, 5);
}

} // namespace
} // namespace anabranch::testing
