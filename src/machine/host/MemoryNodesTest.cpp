//===- MemoryNodesTest.cpp - nodes and caches of machines made of files ---===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/host/MemoryNodes.h"

#include "machine/host/AvailableCpus.h"
#include "support/machine/TestMachine.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace anabranch::testing {

using namespace machine;

namespace {

using Cores = std::vector<std::vector<int>>;

/// Two nodes whose CPUs alternate. Two CPUs of a node share a last cache.
struct TwoNodes : FakeMachine {
  TwoNodes() {
    write("/sys/devices/system/node/online", "0-1\n");
    write("/sys/devices/system/node/node0/cpulist", "0,2,4,6\n");
    write("/sys/devices/system/node/node1/cpulist", "1,3,5,7\n");
    for (int node : {0, 1})
      write("/sys/devices/system/node/node" + std::to_string(node) + "/meminfo",
            "Node " + std::to_string(node) +
                " MemTotal:       1048576 kB\nNode 0 MemFree:   7 kB\n");
    for (int cpu = 0; cpu < 8; ++cpu) {
      int first = cpu % 4;
      std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                           "/cache/index0/";
      write(folder + "level", "3\n");
      write(folder + "shared_cpu_list",
            std::to_string(first) + "," + std::to_string(first + 4) + "\n");
    }
  }
};

TEST(MemoryNodes, HaveCpusAndMemory) {
  TwoNodes machine;
  std::vector<MemoryNode> nodes = memoryNodes(machine.root());
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[1].number, 1);
  EXPECT_EQ(nodes[1].cpus, std::vector<int>({1, 3, 5, 7}));
  EXPECT_EQ(nodes[1].bytes, int64_t(1) << 30);
  EXPECT_TRUE(memoryNodes(FakeMachine().root()).empty());
}

/// A node of memory alone, as of a device, has no CPUs.
TEST(MemoryNodes, MayBeMemoryAlone) {
  TwoNodes machine;
  machine.write("/sys/devices/system/node/online", "0-1,4\n");
  machine.write("/sys/devices/system/node/node4/cpulist", "\n");
  std::vector<MemoryNode> nodes = memoryNodes(machine.root());
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[2].number, 4);
  EXPECT_TRUE(nodes[2].cpus.empty());
  EXPECT_EQ(nodes[2].bytes, 0);
}

TEST(NeighboursFirst, FillsCachesAndThenNodes) {
  TwoNodes machine;
  Cores all{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
  EXPECT_EQ(neighboursFirst(all, machine.root()),
            Cores({{0}, {4}, {2}, {6}, {1}, {5}, {3}, {7}}));
  // The first core decides where the order begins.
  EXPECT_EQ(neighboursFirst({{3}, {4}, {5}, {7}}, machine.root()),
            Cores({{3}, {7}, {5}, {4}}));
}

TEST(NeighboursFirst, KeepsTheOrderOfAMachineThatSaysNothing) {
  Cores all{{2, 3}, {0, 1}, {5}};
  EXPECT_EQ(neighboursFirst(all, FakeMachine().root()), all);
}

/// The files of this machine name each CPU of the process once.
TEST(MemoryNodes, OfThisMachine) {
  std::vector<int> all;
  for (const MemoryNode &node : memoryNodes()) {
    all.insert(all.end(), node.cpus.begin(), node.cpus.end());
    EXPECT_GE(node.bytes, 0);
  }
  if (all.empty())
    GTEST_SKIP() << "the kernel tells no nodes";
  for (int cpu : affinityOfProcess())
    EXPECT_EQ(std::count(all.begin(), all.end(), cpu), 1) << cpu;
}

} // namespace

} // namespace anabranch::testing
