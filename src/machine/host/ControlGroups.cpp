//===- ControlGroups.cpp - what this process's container may use ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/host/ControlGroups.h"

#include "machine/host/ReadText.h"

#include <algorithm>
#include <array>

namespace anabranch::machine {

namespace {

bool isIn(std::string_view wanted, std::string_view list) {
  std::vector<std::string_view> words = splitText(list, ',');
  return std::find(words.begin(), words.end(), wanted) != words.end();
}

/// The kernel writes a space in a path as \040.
std::string unescaped(std::string_view text) {
  auto digit = [&](size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '7';
  };
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && digit(i + 1) && digit(i + 2) && digit(i + 3)) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 +
                                 (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

/// A place where a tree of control groups, or a part of one, is mounted.
struct Mount {
  std::string
      top; ///< the group that is mounted, as a path from the tree's root
  std::string point; ///< the folder where it is mounted
};

/// The mounts of version 1 with this controller; for a null controller, those
/// of version 2.
std::vector<Mount> mountsOf(const std::string &mountInfo,
                            const char *controller) {
  std::vector<Mount> found;
  for (std::string_view line : splitText(mountInfo, '\n')) {
    // 36 35 0:30 /top /point rw,relatime shared:1 - cgroup cgroup rw,cpu
    std::vector<std::string_view> words = splitText(line, ' ');
    auto dash = std::find(words.begin(), words.end(), "-");
    if (dash - words.begin() < 6 || words.end() - dash < 4)
      continue;
    if (controller ? dash[1] == "cgroup" && isIn(controller, dash[3])
                   : dash[1] == "cgroup2")
      found.push_back({unescaped(words[3]), unescaped(words[4])});
  }
  return found;
}

/// This process's group in the tree with this controller; for null, in version
/// 2.
std::optional<std::string> groupOf(const std::string &membership,
                                   const char *controller) {
  for (std::string_view line : splitText(membership, '\n')) {
    // 4:cpu,cpuacct:/path, and 0::/path for version 2
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos)
      continue;
    std::string_view names = line.substr(first + 1, second - first - 1);
    if (controller ? isIn(controller, names)
                   : names.empty() && line.substr(0, first) == "0")
      return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

/// `path` from `top` on: "/c" for "/a/b/c" and "/a/b". None if `path` is not
/// below `top`. A path with ".." leads out of this process's namespace.
std::optional<std::string> below(const std::string &path,
                                 const std::string &top) {
  std::string prefix = top == "/" ? "" : top;
  std::string_view rest = path;
  if (rest.substr(0, prefix.size()) != prefix || path.find("/..") != path.npos)
    return std::nullopt;
  rest.remove_prefix(prefix.size());
  while (!rest.empty() && rest.back() == '/')
    rest.remove_suffix(1);
  if (!rest.empty() && rest.front() != '/')
    return std::nullopt;
  return std::string(rest);
}

struct Place {
  std::string point, below;
};

/// The folder of a group. Of several mounts that show the group, the one with
/// most levels counts. If none shows it, the paths come from two namespaces.
/// Then the top of the mount is the process's group, or above it.
Place placeOf(const std::string &group, const std::vector<Mount> &mounts) {
  const Mount *best = nullptr;
  for (const Mount &mount : mounts)
    if (below(group, mount.top) &&
        (!best || mount.top.size() < best->top.size()))
      best = &mount;
  if (best)
    return {best->point, *below(group, best->top)};
  return {mounts.back().point, ""};
}

/// The quota from a file of version 2: "50000 100000", or "max 100000" without
/// a limit.
double quotaOfTwo(const std::string &folder) {
  std::string text = readText(folder + "/cpu.max");
  if (!text.empty() && text.back() == '\n')
    text.pop_back();
  std::vector<std::string_view> words = splitText(text, ' ');
  if (words.size() != 2)
    return 0;
  auto quota = parseNumber(words[0]), period = parseNumber(words[1]);
  return quota && period && *quota > 0 && *period > 0
             ? static_cast<double>(*quota) / static_cast<double>(*period)
             : 0;
}

std::optional<int64_t> numberIn(const std::string &file) {
  std::string text = readText(file);
  if (!text.empty() && text.back() == '\n')
    text.pop_back();
  return parseNumber(text);
}

/// The sum of the numbers after these words at the start of the file's lines.
template <size_t count>
int64_t sumOf(const std::string &file, std::array<const char *, count> names) {
  int64_t sum = 0;
  std::string text = readText(file);
  for (std::string_view line : splitText(text, '\n')) {
    std::vector<std::string_view> words = splitText(line, ' ');
    bool isWanted = words.size() == 2 && std::find(names.begin(), names.end(),
                                                   words[0]) != names.end();
    if (isWanted)
      sum += std::max<int64_t>(parseNumber(words[1]).value_or(0), 0);
  }
  return sum;
}

/// The quota from the files of version 1, where -1 means no limit.
double quotaOfOne(const std::string &folder) {
  auto quota = numberIn(folder + "/cpu.cfs_quota_us");
  if (!quota || *quota <= 0)
    return 0;
  auto period = numberIn(folder + "/cpu.cfs_period_us");
  return period && *period > 0
             ? static_cast<double>(*quota) / static_cast<double>(*period)
             : 0;
}

} // namespace

ControlGroups::ControlGroups(std::string root) : root(std::move(root)) {
  follow();
}

void ControlGroups::follow() {
  std::string now = readText(root + "/proc/self/cgroup");
  if (now == membership)
    return;
  membership = std::move(now);
  findAll("cpu", cpu);
  findAll("memory", memory);
}

void ControlGroups::findAll(const char *controller,
                            std::vector<Hierarchy> &found) const {
  std::string mounts = readText(root + "/proc/self/mountinfo");
  found.clear();
  for (Version version : {Version::Two, Version::One})
    if (auto hierarchy = find(version, mounts, controller))
      found.push_back(std::move(*hierarchy));
}

std::optional<ControlGroups::Hierarchy>
ControlGroups::find(Version version, const std::string &mountInfo,
                    const char *controller) const {
  const char *key = version == Version::Two ? nullptr : controller;
  std::optional<std::string> group = groupOf(membership, key);
  std::vector<Mount> mounts = mountsOf(mountInfo, key);
  if (!group || mounts.empty())
    return std::nullopt;
  Place place = placeOf(*group, mounts);
  Hierarchy hierarchy{version, {}};
  for (std::string rest = place.below;; rest.resize(rest.rfind('/'))) {
    hierarchy.folders.push_back(root + place.point + rest);
    if (rest.empty())
      return hierarchy;
  }
}

template <typename Found, typename Number, typename Read>
std::optional<Found>
ControlGroups::leastOf(const std::vector<Hierarchy> &groups,
                       Number Found::*field, Read read) {
  std::optional<Found> least;
  for (const Hierarchy &hierarchy : groups)
    for (const std::string &folder : hierarchy.folders)
      if (std::optional<Found> found = read(folder, hierarchy.version);
          found && (!least || (*found).*field < (*least).*field))
        least = std::move(found);
  return least;
}

std::optional<CpuQuota> ControlGroups::quotaOf(const std::string &folder,
                                               Version version) {
  bool isTwo = version == Version::Two;
  double cpus = isTwo ? quotaOfTwo(folder) : quotaOfOne(folder);
  if (!(cpus > 0))
    return std::nullopt;
  return CpuQuota{cpus, folder + (isTwo ? "/cpu.max" : "/cpu.cfs_quota_us")};
}

std::optional<MemoryLimit> ControlGroups::limitOf(const std::string &folder,
                                                  Version version) {
  // Without a limit, version 1 writes the largest number of pages.
  constexpr int64_t unlimited = int64_t(1) << 60;
  std::string file =
      folder +
      (version == Version::Two ? "/memory.max" : "/memory.limit_in_bytes");
  auto bytes = numberIn(file);
  if (!bytes || *bytes <= 0 || *bytes >= unlimited)
    return std::nullopt;
  return MemoryLimit{*bytes, file};
}

std::optional<MemoryRoom> ControlGroups::roomOf(const std::string &folder,
                                                Version version) {
  bool isTwo = version == Version::Two;
  auto limit = limitOf(folder, version);
  auto used =
      numberIn(folder + (isTwo ? "/memory.current" : "/memory.usage_in_bytes"));
  if (!limit || !used)
    return std::nullopt;
  int64_t files =
      sumOf(folder + "/memory.stat",
            isTwo ? std::array{"inactive_file", "active_file"}
                  : std::array{"total_inactive_file", "total_active_file"});
  int64_t room = std::max<int64_t>(limit->bytes - (*used - files), 0);
  return MemoryRoom{std::min(room, limit->bytes), *limit};
}

std::optional<CpuQuota> ControlGroups::cpuQuota() const {
  return leastOf(cpu, &CpuQuota::cpus, quotaOf);
}

std::optional<MemoryLimit> ControlGroups::memoryLimit() const {
  return leastOf(memory, &MemoryLimit::bytes, limitOf);
}

std::optional<MemoryRoom> ControlGroups::memoryRoom() const {
  return leastOf(memory, &MemoryRoom::bytes, roomOf);
}

int64_t ControlGroups::throttledPeriods() const {
  int64_t sum = 0;
  for (const Hierarchy &hierarchy : cpu)
    for (const std::string &folder : hierarchy.folders)
      sum += sumOf(folder + "/cpu.stat", std::array{"nr_throttled"});
  return sum;
}

} // namespace anabranch::machine
