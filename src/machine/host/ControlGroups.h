//===- ControlGroups.h - what this process's container may use --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A container's limits are limits of control groups: folders in a tree, each of
// which limits all processes below it. So the smallest limit between this
// process's group and the root counts. Version 2 has one tree, version 1 one
// for each controller, and a hybrid system has both.

#ifndef ANABRANCH_MACHINE_HOST_CONTROLGROUPS_H
#define ANABRANCH_MACHINE_HOST_CONTROLGROUPS_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace anabranch::machine {

/// CPU time for each second of the clock, and the file that limits it.
struct CpuQuota {
  double cpus = 0;
  std::string file;
};

struct MemoryLimit {
  int64_t bytes = 0;
  std::string file;
};

/// How many more bytes a memory limit allows. Pages of files do not count as
/// used: the kernel drops them when it needs memory.
struct MemoryRoom {
  int64_t bytes = 0; ///< never negative
  MemoryLimit limit;
};

/// The control groups of this process. A missing or malformed file counts as no
/// limit. Not thread-safe.
class ControlGroups {
public:
  /// `root` is put before all paths: a test gives a folder with a tree of its
  /// own.
  explicit ControlGroups(std::string root = "");

  /// Finds the groups again, if the process has moved to others.
  void follow();

  // The following functions read the files at each call.

  /// The smallest of all levels; none: there is no limit.
  std::optional<CpuQuota> cpuQuota() const;
  std::optional<MemoryLimit> memoryLimit() const;
  std::optional<MemoryRoom> memoryRoom() const;
  /// How often one of the groups, since it exists, had to wait because its
  /// quota was used up.
  int64_t throttledPeriods() const;

private:
  enum class Version : uint8_t { One, Two };
  /// A group and the groups above it, as far as this process can see them.
  struct Hierarchy {
    Version version;
    std::vector<std::string> folders; ///< this process's own one is first
  };

  std::optional<Hierarchy> find(Version version, const std::string &mounts,
                                const char *controller) const;
  void findAll(const char *controller, std::vector<Hierarchy> &found) const;
  /// The result of `read(folder, version)` with the smallest `field`, over all
  /// levels.
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

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_HOST_CONTROLGROUPS_H
