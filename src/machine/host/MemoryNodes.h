//===- MemoryNodes.h - which memory is near which CPUs ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_MACHINE_HOST_MEMORYNODES_H
#define ANABRANCH_MACHINE_HOST_MEMORYNODES_H

#include <cstdint>
#include <string>
#include <vector>

namespace anabranch::machine {

/// Memory and the CPUs that reach it fastest: a node of NUMA.
struct MemoryNode {
  int number;
  std::vector<int> cpus; ///< empty for memory alone
  int64_t bytes;         ///< zero: the system does not say
};

/// The nodes of the machine, by their numbers. `root` is put before the paths
/// of the files read. Empty if the kernel knows no nodes.
std::vector<MemoryNode> memoryNodes(const std::string &root = "");

/// The cores in another order: the first one, then those that share its last
/// cache, then the others of its node, and so on for the next core. Threads
/// that take cores in this order share as much as they can.
std::vector<std::vector<int>>
neighboursFirst(std::vector<std::vector<int>> cores,
                const std::string &root = "");

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_HOST_MEMORYNODES_H
