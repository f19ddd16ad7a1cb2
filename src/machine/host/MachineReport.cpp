//===- MachineReport.cpp - what was found about the machine, as text ------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/host/MachineReport.h"

#include "machine/host/AvailableCpus.h"
#include "machine/host/MemoryNodes.h"
#include "machine/host/MemoryRoom.h"
#include "machine/host/ReadText.h"
#include "machine/processor/Caches.h"
#include "machine/processor/CpuModels.h"

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <set>

namespace anabranch::machine {

namespace {

std::string withDigits(double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

std::string quotaLine(const std::optional<CpuQuota> &quota) {
  if (!quota)
    return "none";
  return withDigits(quota->cpus) + " CPUs, by " + quota->file;
}

std::string memoryLine(const std::optional<MemoryLimit> &limit) {
  if (!limit)
    return "none";
  return inMiB(limit->bytes) + ", by " + limit->file;
}

std::string variableLine(const char *text, int threads) {
  if (!text)
    return "not set";
  std::string quoted = "'" + std::string(text) + "'";
  return threads ? quoted : quoted + ", ignored: not a positive number";
}

std::string frameworkLine(const ThreadFacts &facts) {
  if (facts.framework <= 0)
    return "not known: PyTorch is not in use";
  std::string number = std::to_string(facts.framework);
  if (isUsersChoice(facts.framework, facts))
    return number + ", which somebody chose";
  return number + ", its own default";
}

/// The text of each ThreadRule.
constexpr const char *reasons[] = {
    "as the program set it",
    "by ANABRANCH_NUM_THREADS",
    "by torch.set_num_threads",
    "by OMP_NUM_THREADS",
    "the whole CPUs of the quota, at least one",
    "one for each core",
};

std::string spinLine(int limit) {
  if (limit == INT_MAX)
    return "spin before they sleep: there is no quota";
  if (limit == 0)
    return "sleep at once: the container was throttled";
  if (limit < 2)
    return "sleep at once: the quota has no room for them";
  return "spin before they sleep: the quota has room for " +
         std::to_string(limit) + " threads";
}

/// The rate of each kind of matrix product that this process may use.
std::string multipliesLine(const CpuModel &model) {
  std::string text;
  for (int i = 0; i < multiplyCount; ++i) {
    auto multiply = Multiply(i);
    if (cpuHas(multiply))
      text += (text.empty() ? "" : ", ") +
              (nameOf(multiply) + (" " + withDigits(model.rate(multiply))));
  }
  return text.empty() ? "none" : text;
}

std::string loadsLine(const CpuModel &model) {
  return "L1 " + withDigits(model.l1Load) + ", L2 " + withDigits(model.l2Load) +
         ", L3 " + withDigits(model.l3Load);
}

/// "0 (CPUs 0-3, 2048 MiB), 1 (no CPUs, 512 MiB)".
std::string nodesLine(const std::vector<MemoryNode> &nodes) {
  std::string text;
  for (const MemoryNode &node : nodes) {
    std::string cpus =
        node.cpus.empty() ? "no CPUs" : "CPUs " + rangesOf(node.cpus);
    text += (text.empty() ? "" : ", ") + std::to_string(node.number) + " (" +
            cpus + ", " + inMiB(node.bytes) + ")";
  }
  return text.empty() ? "not known" : text;
}

/// The last caches of these CPUs: "33280 KiB for the CPUs 0-31, ...".
std::string lastCachesLine(const std::vector<int> &cpus,
                           const std::string &root) {
  std::string text;
  std::set<std::string> seen;
  for (int cpu : cpus) {
    std::vector<Cache> caches = cachesOf(cpu, root);
    if (!caches.empty() && seen.insert(caches.back().cpus).second)
      text += (text.empty() ? "L" : ", L") +
              std::to_string(caches.back().level) + " of " +
              std::to_string(caches.back().bytes / KiB) + " KiB for the CPUs " +
              caches.back().cpus;
  }
  return text.empty() ? "not known" : text;
}

std::string cachesLine(const CpuModel &model) {
  auto kib = [](int64_t bytes) {
    return std::to_string(bytes / 1024) + " KiB";
  };
  return "L1 " + kib(model.l1Bytes) + ", L2 " + kib(model.l2Bytes) + ", L3 " +
         kib(model.l3Bytes);
}

} // namespace

std::string reportMachine(DefaultThreads &threads, const std::string &root) {
  threads.look();
  ThreadFacts facts = threads.facts();
  ThreadChoice choice = chooseThreads(facts);
  ControlGroups groups(root);
  std::optional<CpuQuota> quota = groups.cpuQuota();
  std::vector<int> cpus = affinityOfProcess();
  std::string online = readText(root + "/sys/devices/system/cpu/online");
  online = online.substr(0, online.find('\n'));

  std::string text;
  auto line = [&](const char *fact, const std::string &value) {
    text += std::string(fact) + ": " + value + "\n";
  };
  const CpuModel &model = hostCpuModel();
  line("CPU model", std::string(model.name));
  line("multiply-adds of a core in a cycle", multipliesLine(model));
  line("bytes read by a core in a cycle", loadsLine(model));
  line("caches", cachesLine(model));
  line("CPUs of the machine", online.empty() ? "not known" : online);
  line("CPUs of this process", std::to_string(facts.cpus) + " (" +
                                   rangesOf(cpus) + "), by its affinity mask");
  line("cores of these CPUs", std::to_string(facts.cores));
  line("last caches of these CPUs", lastCachesLine(cpus, root));
  line("memory nodes", nodesLine(memoryNodes(root)));
  line("CPU quota", quotaLine(quota));
  if (quota)
    line("throttled periods", std::to_string(groups.throttledPeriods()));
  line("memory limit", memoryLine(groups.memoryLimit()));
  line("ANABRANCH_NUM_THREADS",
       variableLine(std::getenv("ANABRANCH_NUM_THREADS"), facts.variable));
  line("torch.get_num_threads()", frameworkLine(facts));
  line("OMP_NUM_THREADS",
       variableLine(std::getenv("OMP_NUM_THREADS"), facts.openMp));
  std::string reason = reasons[static_cast<size_t>(choice.rule)];
  if (choice.rule == ThreadRule::Quota && QuotaBudget::sharesOut(facts.quota))
    reason += "; some calls have one more";
  line("threads of a call", std::to_string(choice.threads) + ", " + reason);
  line("idle workers", spinLine(threads.spinLimit()));
  return text;
}

} // namespace anabranch::machine
