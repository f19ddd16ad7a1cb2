//===- AvailableCpus.h - the CPUs and cores of this process -----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_MACHINE_AVAILABLECPUS_H
#define ANABRANCH_RUNTIME_MACHINE_AVAILABLECPUS_H

#include <string>
#include <vector>

namespace anabranch::runtime {

/// The CPUs in the affinity mask of this process's main thread, in ascending
/// order. The kernel takes those out that a cpuset forbids.
std::vector<int> affinityOfProcess();

/// The same CPUs by core, in the order of each core's first CPU: two CPUs of
/// one core (SMT siblings) share its arithmetic units, so that a second worker
/// there gains little. `root` stands before the paths that are read; a CPU of
/// which nothing is known is a core of its own.
std::vector<std::vector<int>> coresOf(const std::vector<int> &cpus,
                                      const std::string &root = "");

/// "0-3,8"
std::string rangesOf(const std::vector<int> &cpus);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_MACHINE_AVAILABLECPUS_H
