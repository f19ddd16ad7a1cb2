//===- TestMachine.h - a machine made of files ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SUPPORT_MACHINE_TESTMACHINE_H
#define ANABRANCH_SUPPORT_MACHINE_TESTMACHINE_H

#include "support/process/TemporaryFolder.h"

#include <filesystem>
#include <fstream>
#include <string>

namespace anabranch::testing {

/// A folder that takes the place of a system's root.
class FakeMachine {
public:
  FakeMachine() = default;
  /// A process in this group of version 2, whose tree is mounted at `point`.
  FakeMachine(const std::string &group, const std::string &point) {
    isIn("0::" + group + "\n");
    mount("/", point);
  }

  const std::string &root() const { return folder.path; }

  void write(const std::string &path, const std::string &text) {
    std::filesystem::path file = folder.path + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  /// Sets the groups of the process, in the format of /proc/self/cgroup.
  void isIn(const std::string &groups) { write("/proc/self/cgroup", groups); }
  /// Adds a mount of the group `top`. Without controllers it is one of version
  /// 2.
  void mount(const std::string &top, const std::string &point,
             const std::string &controllers = "") {
    bool isTwo = controllers.empty();
    mounts += "36 35 0:" + std::to_string(mounts.size()) + " " + top + " " +
              point + " rw,relatime shared:7 - " +
              (isTwo ? "cgroup2 cgroup2 rw,nsdelegate"
                     : "cgroup cgroup rw," + controllers) +
              "\n";
    write("/proc/self/mountinfo", mounts);
  }
  void quotaOfOne(const std::string &group, const std::string &quota,
                  const std::string &period = "100000") {
    write(group + "/cpu.cfs_quota_us", quota + "\n");
    write(group + "/cpu.cfs_period_us", period + "\n");
  }

private:
  TemporaryFolder folder;
  std::string mounts = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
                       "23 22 0:21 / /proc rw - proc proc rw\n";
};

} // namespace anabranch::testing

#endif // ANABRANCH_SUPPORT_MACHINE_TESTMACHINE_H
