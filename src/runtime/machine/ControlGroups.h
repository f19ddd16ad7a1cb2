//===- ControlGroups.h - what this process's container may use --*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A container's limits are those of control groups: folders in a tree, each of
// which limits all processes below it. So the smallest limit from this
// process's group up to the root counts. Version 2 has one tree, version 1 one
// for each controller, and a hybrid system has both.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_MACHINE_CONTROLGROUPS_H
#define ANABRANCH_RUNTIME_MACHINE_CONTROLGROUPS_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace anabranch::runtime {

/// CPU time for each second of the clock, and the file that says so.
struct CpuQuota {
  double cpus = 0;
  std::string file;
};

struct MemoryLimit {
  int64_t bytes = 0;
  std::string file;
};

/// How much more memory a limit allows. Pages of files do not count as used:
/// the kernel drops them when it needs room.
struct MemoryRoom {
  int64_t bytes = 0; ///< never negative
  MemoryLimit limit;
};

/// The control groups of this process. A file that is missing or makes no sense
/// states no limit. Not for two threads at once.
class ControlGroups {
public:
  /// `root` stands before all paths: a test gives a folder with a tree of its
  /// own.
  explicit ControlGroups(std::string root = "");

  /// Finds the groups again if the process is in others now.
  void follow();

  // These read the files at each call.

  /// The smallest of all levels; none: there is no limit.
  std::optional<CpuQuota> cpuQuota() const;
  std::optional<MemoryLimit> memoryLimit() const;
  std::optional<MemoryRoom> memoryRoom() const;
  /// How often, since the groups exist, one of them had to wait because its
  /// quota was spent.
  int64_t throttledPeriods() const;

private:
  enum class Version : uint8_t { One, Two };
  /// A group and those above it, as far as they can be seen from here.
  struct Hierarchy {
    Version version;
    std::vector<std::string> folders; ///< this process's own one is first
  };

  std::optional<Hierarchy> find(Version version, const std::string &mounts,
                                const char *controller) const;
  void findAll(const char *controller, std::vector<Hierarchy> &found) const;
  /// The least by `field` of what `read(folder, version)` finds at any level.
  template <typename Found, typename Number, typename Read>
  static std::optional<Found> leastOf(const std::vector<Hierarchy> &groups,
                                      Number Found::*field, Read read);
  static std::optional<CpuQuota> quotaOf(const std::string &folder,
                                         Version version);
  static std::optional<MemoryLimit> limitOf(const std::string &folder,
                                            Version version);
  static std::optional<MemoryRoom> roomOf(const std::string &folder,
                                          Version version);

  const std::string root;
  std::string membership; ///< what /proc/self/cgroup said
  std::vector<Hierarchy> cpu, memory;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_MACHINE_CONTROLGROUPS_H
