//===- Caches.cpp - the caches that a CPU reads through -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/processor/Caches.h"

#include "machine/processor/MemoryUnits.h"

#include <algorithm>
#include <fstream>

namespace anabranch::machine {

/// The value in a file; `otherwise` if it cannot be read.
template <typename ValueT>
static ValueT read(const std::string &path, ValueT otherwise) {
  std::ifstream file(path);
  ValueT value;
  return file >> value ? value : otherwise;
}

std::vector<Cache> cachesOf(int cpu, const std::string &root) {
  std::vector<Cache> caches;
  std::string folder =
      root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache";
  for (int index = 0;; ++index) {
    std::string cache = folder + "/index" + std::to_string(index) + "/";
    int level = read(cache + "level", 0);
    if (level == 0)
      break;
    if (read<std::string>(cache + "type", "") == "Instruction")
      continue;
    // The size is a number of KiB, such as "32768K".
    caches.push_back(
        {level, read<int64_t>(cache + "size", 0) * KiB,
         read<int64_t>(cache + "coherency_line_size", 0),
         read<std::string>(cache + "shared_cpu_list", std::to_string(cpu))});
  }
  std::sort(caches.begin(), caches.end(),
            [](const Cache &a, const Cache &b) { return a.level < b.level; });
  return caches;
}

} // namespace anabranch::machine
