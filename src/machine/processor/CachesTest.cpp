//===- CachesTest.cpp - caches of machines made of files ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/processor/Caches.h"

#include "support/machine/TestMachine.h"

#include <gtest/gtest.h>

namespace anabranch::testing {

using namespace machine;

namespace {

TEST(Caches, AreThoseOfDataFromTheNearestOn) {
  FakeMachine machine;
  auto write = [&](int index, const char *level, const char *type,
                   const char *size, const char *cpus) {
    std::string folder = "/sys/devices/system/cpu/cpu5/cache/index" +
                         std::to_string(index) + "/";
    machine.write(folder + "level", level);
    machine.write(folder + "type", type);
    machine.write(folder + "size", size);
    machine.write(folder + "coherency_line_size", "64\n");
    machine.write(folder + "shared_cpu_list", cpus);
  };
  write(0, "3\n", "Unified\n", "32768K\n", "1,4-7\n");
  write(1, "1\n", "Instruction\n", "64K\n", "5\n");
  write(2, "1\n", "Data\n", "48K\n", "5\n");
  write(3, "4\n", "Unified\n", "\n", "0-7\n");
  std::vector<Cache> caches = cachesOf(5, machine.root());
  ASSERT_EQ(caches.size(), 3u);
  EXPECT_EQ(caches[0].level, 1);
  EXPECT_EQ(caches[0].bytes, 48 * 1024);
  EXPECT_EQ(caches[0].lineBytes, 64);
  EXPECT_EQ(caches[1].level, 3);
  EXPECT_EQ(caches[1].bytes, 32 << 20);
  EXPECT_EQ(caches[1].cpus, "1,4-7");
  EXPECT_EQ(caches[2].bytes, 0);
  EXPECT_TRUE(cachesOf(0, machine.root()).empty());
}

} // namespace

} // namespace anabranch::testing
