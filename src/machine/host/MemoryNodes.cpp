//===- MemoryNodes.cpp - which memory is near which CPUs ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/host/MemoryNodes.h"

#include "machine/host/AvailableCpus.h"
#include "machine/host/ReadText.h"
#include "machine/processor/Caches.h"
#include "machine/processor/MemoryUnits.h"

#include <algorithm>
#include <map>

namespace anabranch::machine {

/// The bytes of "Node 0 MemTotal:  131841972 kB".
static int64_t totalOf(const std::string &text) {
  for (std::string_view line : splitText(text, '\n')) {
    std::vector<std::string_view> words = splitText(line, ' ');
    if (words.size() >= 4 && words[2] == "MemTotal:")
      return parseNumber(words[3]).value_or(0) * KiB;
  }
  return 0;
}

std::vector<MemoryNode> memoryNodes(const std::string &root) {
  const std::string folder = root + "/sys/devices/system/node";
  std::vector<MemoryNode> nodes;
  for (int number : cpusIn(readText(folder + "/online"))) {
    std::string node = folder + "/node" + std::to_string(number);
    nodes.push_back({number, cpusIn(readText(node + "/cpulist")),
                     totalOf(readText(node + "/meminfo"))});
  }
  return nodes;
}

std::vector<std::vector<int>>
neighboursFirst(std::vector<std::vector<int>> cores, const std::string &root) {
  std::map<int, int> nodeOf;
  for (const MemoryNode &node : memoryNodes(root))
    for (int cpu : node.cpus)
      nodeOf[cpu] = node.number;
  // Nodes and caches count in the order in which cores name them first.
  std::map<int, size_t> nodes;
  std::map<std::string, size_t> caches;
  using Place = std::pair<size_t, size_t>;
  std::vector<std::pair<Place, std::vector<int>>> placed;
  for (std::vector<int> &core : cores) {
    auto node = nodeOf.find(core.front());
    int number = node == nodeOf.end() ? -1 : node->second;
    std::vector<Cache> found = cachesOf(core.front(), root);
    std::string cache = found.empty() ? "" : found.back().cpus;
    Place place(nodes.try_emplace(number, nodes.size()).first->second,
                caches.try_emplace(cache, caches.size()).first->second);
    placed.emplace_back(place, std::move(core));
  }
  std::stable_sort(
      placed.begin(), placed.end(),
      [](const auto &a, const auto &b) { return a.first < b.first; });
  for (size_t i = 0; i < cores.size(); ++i)
    cores[i] = std::move(placed[i].second);
  return cores;
}

} // namespace anabranch::machine
