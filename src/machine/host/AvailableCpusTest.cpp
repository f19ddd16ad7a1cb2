//===- AvailableCpusTest.cpp - CPUs and their cores -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/host/AvailableCpus.h"

#include "support/machine/TestMachine.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

namespace anabranch::testing {

using namespace machine;

namespace {

TEST(AvailableCpus, ThoseOfTheMask) {
  cpu_set_t set;
  ASSERT_EQ(::sched_getaffinity(::getpid(), sizeof(set), &set), 0);
  std::vector<int> cpus = affinityOfProcess();
  EXPECT_EQ(static_cast<int>(cpus.size()), CPU_COUNT(&set));
  for (int cpu : cpus)
    EXPECT_TRUE(CPU_ISSET(cpu, &set));
}

TEST(AvailableCpus, SiblingsAreOneCore) {
  FakeMachine machine;
  for (int cpu = 0; cpu < 8; ++cpu)
    machine.write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                      "/topology/thread_siblings_list",
                  std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4) +
                      "\n");
  using Cores = std::vector<std::vector<int>>;
  EXPECT_EQ(coresOf({0, 1, 2, 3, 4, 5, 6, 7}, machine.root()),
            Cores({{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(coresOf({1, 4, 5}, machine.root()), Cores({{1, 5}, {4}}));
  EXPECT_EQ(coresOf({7, 8, 9}, machine.root()), Cores({{7}, {8}, {9}}));
}

TEST(AvailableCpus, Ranges) {
  EXPECT_EQ(rangesOf({}), "");
  EXPECT_EQ(rangesOf({3}), "3");
  EXPECT_EQ(rangesOf({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

TEST(AvailableCpus, RangesAreReadAsTheyAreWritten) {
  using Cpus = std::vector<int>;
  for (const Cpus &cpus : {Cpus{}, Cpus{0}, Cpus{0, 1, 2, 3, 8}, Cpus{5, 7}})
    EXPECT_EQ(cpusIn(rangesOf(cpus) + "\n"), cpus);
  EXPECT_EQ(cpusIn("0-1,x,4"), Cpus({0, 1}));
  EXPECT_EQ(cpusIn("0-999999999"), Cpus());
  EXPECT_EQ(cpusIn("3-"), Cpus());
}

} // namespace
} // namespace anabranch::testing
