//===- AvailableCpus.cpp - the CPUs and cores of this process -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/host/AvailableCpus.h"

#include "machine/host/ReadText.h"

#include <cerrno>
#include <map>
#include <memory>
#include <sched.h>
#include <unistd.h>

namespace anabranch::machine {

std::vector<int> affinityOfProcess() {
  std::vector<int> cpus;
  // sched_getaffinity fails for a mask that is smaller than the kernel's own.
  for (int most = 1024; most <= 1 << 20; most *= 2) {
    auto release = [](cpu_set_t *set) { CPU_FREE(set); };
    std::unique_ptr<cpu_set_t, decltype(release)> set(
        CPU_ALLOC(static_cast<size_t>(most)), release);
    size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(most));
    if (!set)
      break;
    CPU_ZERO_S(bytes, set.get());
    if (::sched_getaffinity(::getpid(), bytes, set.get()) == 0) {
      for (int cpu = 0; cpu < most; ++cpu)
        if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set.get()))
          cpus.push_back(cpu);
      break;
    }
    if (errno != EINVAL)
      break;
  }
  return cpus;
}

std::vector<std::vector<int>> coresOf(const std::vector<int> &cpus,
                                      const std::string &root) {
  std::vector<std::vector<int>> cores;
  std::map<std::string, size_t> known;
  for (int cpu : cpus) {
    // Two CPUs of one core have the same text in this file.
    std::string siblings =
        readText(root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                 "/topology/thread_siblings_list");
    if (siblings.empty())
      siblings = "cpu" + std::to_string(cpu);
    auto [core, isNew] = known.try_emplace(std::move(siblings), cores.size());
    if (isNew)
      cores.emplace_back();
    cores[core->second].push_back(cpu);
  }
  return cores;
}

std::string rangesOf(const std::vector<int> &cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1)
      ++end;
    text += (text.empty() ? "" : ",") + std::to_string(cpus[i]);
    if (end > i + 1)
      text += "-" + std::to_string(cpus[end - 1]);
    i = end;
  }
  return text;
}

std::vector<int> cpusIn(std::string_view ranges) {
  // More CPUs than any machine has: a broken file must not fill the memory.
  constexpr int64_t most = 1 << 16;
  std::vector<int> cpus;
  ranges = ranges.substr(0, ranges.find('\n'));
  for (std::string_view range : splitText(ranges, ',')) {
    size_t dash = range.find('-');
    auto first = parseNumber(range.substr(0, dash));
    auto last =
        dash == range.npos ? first : parseNumber(range.substr(dash + 1));
    if (!first || !last || *first < 0 || *last >= most)
      break;
    for (int64_t cpu = *first; cpu <= *last; ++cpu)
      cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

} // namespace anabranch::machine
