//===- ControlGroupsTest.cpp - limits of trees of groups ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/host/ControlGroups.h"
#include "machine/host/MemoryRoom.h"

#include "support/machine/TestMachine.h"
#include "support/process/ThreadSanitizer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace anabranch::testing {

using machine::checkMemoryRoom;
using machine::ControlGroups;

namespace {

/// Zero: no limit.
double quotaOf(const FakeMachine &machine) {
  auto quota = ControlGroups(machine.root()).cpuQuota();
  return quota ? quota->cpus : 0;
}

int64_t memoryOf(const FakeMachine &machine) {
  auto limit = ControlGroups(machine.root()).memoryLimit();
  return limit ? limit->bytes : 0;
}

TEST(ControlGroups, WithoutFilesThereIsNoLimit) {
  FakeMachine machine;
  EXPECT_EQ(quotaOf(machine), 0);
  EXPECT_EQ(memoryOf(machine), 0);
  EXPECT_EQ(ControlGroups(machine.root()).throttledPeriods(), 0);
}

TEST(ControlGroups, VersionTwo) {
  FakeMachine machine("/pod/container", "/sys/fs/cgroup");
  machine.write("/sys/fs/cgroup/pod/container/cpu.max", "150000 100000\n");
  machine.write("/sys/fs/cgroup/pod/container/memory.max", "1073741824\n");
  machine.write("/sys/fs/cgroup/pod/container/cpu.stat",
                "usage_usec 9\nnr_periods 5\nnr_throttled 3\n");
  EXPECT_EQ(quotaOf(machine), 1.5);
  EXPECT_EQ(memoryOf(machine), 1 << 30);
  ControlGroups groups(machine.root());
  EXPECT_EQ(groups.throttledPeriods(), 3);
  EXPECT_EQ(groups.cpuQuota()->file,
            machine.root() + "/sys/fs/cgroup/pod/container/cpu.max");
}

TEST(ControlGroups, VersionOne) {
  FakeMachine machine;
  machine.isIn("4:memory:/docker/7\n3:cpu,cpuacct:/docker/7\n1:name=x:/\n");
  machine.mount("/", "/sys/fs/cgroup/cpu,cpuacct", "cpu,cpuacct");
  machine.mount("/", "/sys/fs/cgroup/memory", "memory");
  machine.quotaOfOne("/sys/fs/cgroup/cpu,cpuacct", "-1");
  machine.quotaOfOne("/sys/fs/cgroup/cpu,cpuacct/docker/7", "50000");
  machine.write("/sys/fs/cgroup/cpu,cpuacct/docker/7/cpu.stat",
                "nr_periods 5\nnr_throttled 4\nthrottled_time 7\n");
  machine.write("/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n");
  machine.write("/sys/fs/cgroup/memory/docker/7/memory.limit_in_bytes",
                "4096000\n");
  EXPECT_EQ(quotaOf(machine), 0.5);
  EXPECT_EQ(memoryOf(machine), 4096000);
  EXPECT_EQ(ControlGroups(machine.root()).throttledPeriods(), 4);
}

TEST(ControlGroups, TheSmallestOfAllLevelsCounts) {
  for (int least : {0, 1, 2}) {
    FakeMachine machine("/a/b/c", "/groups");
    const char *folders[] = {"/groups/a", "/groups/a/b", "/groups/a/b/c"};
    for (int level = 0; level < 3; ++level) {
      std::string number = level == least ? "200000" : "300000";
      machine.write(std::string(folders[level]) + "/cpu.max",
                    number + " 100000\n");
      machine.write(std::string(folders[level]) + "/memory.max", number);
    }
    EXPECT_EQ(quotaOf(machine), 2);
    EXPECT_EQ(memoryOf(machine), 200000);
    auto quota = ControlGroups(machine.root()).cpuQuota();
    EXPECT_EQ(quota->file, machine.root() + folders[least] + "/cpu.max");
  }
}

/// Version 1 limits the CPUs and version 2 has no controllers; or the other way
/// round.
TEST(ControlGroups, Hybrid) {
  FakeMachine machine;
  machine.isIn("3:cpu:/one\n0::/two\n");
  machine.mount("/", "/cg/cpu", "cpu");
  machine.mount("/", "/cg/unified");
  machine.write("/cg/unified/two/cgroup.procs", "1\n");
  machine.quotaOfOne("/cg/cpu/one", "70000", "10000");
  EXPECT_EQ(quotaOf(machine), 7);
  machine.write("/cg/unified/two/cpu.max", "300000 100000\n");
  EXPECT_EQ(quotaOf(machine), 3);
}

/// A container sees its own group as the root of the tree: through a namespace,
/// or because only that part of the host's tree is mounted.
TEST(ControlGroups, InsideAContainer) {
  FakeMachine inNamespace("/", "/sys/fs/cgroup");
  inNamespace.write("/sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ(quotaOf(inNamespace), 4);

  FakeMachine bound;
  bound.isIn("2:cpu:/docker/abc/sub\n");
  bound.mount("/docker/abc", "/sys/fs/cgroup/cpu", "cpu");
  bound.quotaOfOne("/sys/fs/cgroup/cpu", "300000");
  EXPECT_EQ(quotaOf(bound), 3);
  bound.quotaOfOne("/sys/fs/cgroup/cpu/sub", "200000");
  EXPECT_EQ(quotaOf(bound), 2);
}

TEST(ControlGroups, AGroupThatNoMountShowsIsTakenForTheMounted) {
  for (const char *group : {"/docker/abcdef", "/other", "/../x", "relative"}) {
    FakeMachine machine;
    machine.isIn(std::string("2:cpu:") + group + "\n");
    machine.mount("/docker/abc", "/sys/fs/cgroup/cpu", "cpu");
    machine.quotaOfOne("/sys/fs/cgroup/cpu", "300000");
    EXPECT_EQ(quotaOf(machine), 3) << group;
  }
}

/// A mount of the group alone hides the limits above it.
TEST(ControlGroups, TheMountThatShowsMostLevelsIsRead) {
  for (bool wholeFirst : {false, true}) {
    FakeMachine machine;
    machine.isIn("0::/pod/container\n");
    if (wholeFirst)
      machine.mount("/", "/cg");
    machine.mount("/pod/container", "/mine");
    if (!wholeFirst)
      machine.mount("/", "/cg");
    machine.write("/cg/pod/cpu.max", "100000 100000\n");
    machine.write("/mine/cpu.max", "200000 100000\n");
    EXPECT_EQ(quotaOf(machine), 1);
  }
}

TEST(ControlGroups, PathsWithSpaces) {
  FakeMachine machine("/my pod", "/c\\040g");
  machine.write("/c g/my pod/cpu.max", "100000 100000\n");
  EXPECT_EQ(quotaOf(machine), 1);
}

TEST(ControlGroups, WhatMakesNoSenseIsNoLimit) {
  for (const char *text :
       {"", "\n", "max", "max 100000\n", "100000\n", "-5 100000\n",
        "0 100000\n", "100000 0\n", "1e5 100000\n", "a b\n",
        "99999999999999999999999 100000\n", "100000 100000 7\n"}) {
    FakeMachine machine;
    machine.isIn("0::/a\n3:cpu:/a\n");
    machine.mount("/", "/two");
    machine.mount("/", "/one", "cpu");
    machine.write("/two/a/cpu.max", text);
    machine.write("/two/a/memory.max", std::string("x") + text);
    machine.quotaOfOne("/one/a", text);
    EXPECT_EQ(quotaOf(machine), 0) << text;
    EXPECT_EQ(memoryOf(machine), 0) << text;
  }
}

TEST(ControlGroups, DamagedTablesAreNoLimit) {
  for (const char *text :
       {"\n\n", ":::", "0:", "0::", "a:b", "0::/\n36 35 0:2 / /cg rw -",
        "36 35 0:2 / /cg rw - cgroup2", "- - - - - - - - -", "\\", "1 2 3"}) {
    FakeMachine machine;
    machine.write("/cg/cpu.max", "100000 100000\n");
    machine.write("/proc/self/mountinfo", text);
    machine.isIn(text);
    EXPECT_EQ(quotaOf(machine), 0) << text;
    machine.isIn("0::/\n");
    EXPECT_EQ(quotaOf(machine), 0) << text;
  }
}

TEST(ControlGroups, FollowsAProcessThatIsMoved) {
  FakeMachine machine("/a", "/cg");
  machine.write("/cg/a/cpu.max", "100000 100000\n");
  machine.write("/cg/b/cpu.max", "200000 100000\n");
  ControlGroups groups(machine.root());
  EXPECT_EQ(groups.cpuQuota()->cpus, 1);
  machine.write("/cg/a/cpu.max", "50000 100000\n");
  EXPECT_EQ(groups.cpuQuota()->cpus, 0.5);
  machine.isIn("0::/b\n");
  groups.follow();
  EXPECT_EQ(groups.cpuQuota()->cpus, 2);
}

/// A control group of this system, if the process may make one.
class RealGroup {
public:
  explicit RealGroup(const std::string &tree)
      : path(tree + "/anabranch-test-" + std::to_string(::getpid())) {
    made =
        std::filesystem::is_directory(tree) && ::mkdir(path.c_str(), 0700) == 0;
  }
  ~RealGroup() {
    if (made)
      ::rmdir(path.c_str());
  }
  bool set(const char *file, const std::string &text) const {
    if (!made || !std::filesystem::exists(path + "/" + file))
      return false;
    std::ofstream stream(path + "/" + file);
    stream << text << std::flush;
    return stream.good();
  }
  /// Whether `check` holds in a process of the group.
  template <typename Check> bool inside(Check check) const {
    pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      ::_exit(set("cgroup.procs", std::to_string(::getpid())) && check() ? 0
                                                                         : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

private:
  std::string path;
  bool made;
};

TEST(ControlGroups, RealQuota) {
  if (underThreadSanitizer)
    GTEST_SKIP() << "forks";
  RealGroup one("/sys/fs/cgroup/cpu"), two("/sys/fs/cgroup");
  const RealGroup *group = one.set("cpu.cfs_quota_us", "150000") ? &one
                           : two.set("cpu.max", "150000 100000") ? &two
                                                                 : nullptr;
  if (!group)
    GTEST_SKIP() << "this process may make no group with a quota";
  ControlGroups before;
  EXPECT_TRUE(group->inside([&] {
    before.follow();
    auto followed = before.cpuQuota(), found = ControlGroups().cpuQuota();
    return followed && found && found->cpus == 1.5 && followed->cpus == 1.5;
  }));
}

TEST(ControlGroups, RoomIsWhatTheLimitLeaves) {
  FakeMachine machine("/pod/container", "/sys/fs/cgroup");
  const std::string pod = "/sys/fs/cgroup/pod", own = pod + "/container";
  const int64_t mib = 1 << 20;
  auto write = [&](const std::string &file, int64_t count) {
    machine.write(file, std::to_string(count * mib) + "\n");
  };
  auto room = [&] { return ControlGroups(machine.root()).memoryRoom(); };
  EXPECT_FALSE(room());
  EXPECT_TRUE(checkMemoryRoom(100 * mib, "x", machine.root()).ok());
  write(own + "/memory.max", 100);
  write(own + "/memory.current", 70);
  EXPECT_EQ(room()->bytes, 30 * mib);
  machine.write(own + "/memory.stat",
                "anon 5\ninactive_file " + std::to_string(20 * mib) +
                    "\nactive_file " + std::to_string(10 * mib) + "\n");
  EXPECT_EQ(room()->bytes, 60 * mib);
  EXPECT_TRUE(checkMemoryRoom(60 * mib, "x", machine.root()).ok());
  Status refused = checkMemoryRoom(61 * mib, "the weights", machine.root());
  EXPECT_EQ(refused.code(), StatusCode::OutOfMemory);
  EXPECT_EQ(refused.message(),
            "the weights need 61 MiB, and 60 MiB of the 100 MiB that " +
                machine.root() + own + "/memory.max allows are free");
  // The group above may allow less.
  write(pod + "/memory.max", 1000);
  write(pod + "/memory.current", 990);
  EXPECT_EQ(room()->bytes, 10 * mib);
  write(pod + "/memory.current", 1001);
  EXPECT_EQ(room()->bytes, 0);
}

TEST(ControlGroups, RealMemoryLimit) {
  if (underThreadSanitizer)
    GTEST_SKIP() << "forks";
  RealGroup one("/sys/fs/cgroup/memory"), two("/sys/fs/cgroup");
  const std::string bytes = std::to_string(1 << 28);
  const RealGroup *group = one.set("memory.limit_in_bytes", bytes) ? &one
                           : two.set("memory.max", bytes)          ? &two
                                                                   : nullptr;
  if (!group)
    GTEST_SKIP() << "this process may make no group with a limit";
  EXPECT_TRUE(group->inside([] {
    auto found = ControlGroups().memoryLimit();
    return found && found->bytes == 1 << 28;
  }));
}

} // namespace
} // namespace anabranch::testing
