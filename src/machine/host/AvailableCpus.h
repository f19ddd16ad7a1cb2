//===- AvailableCpus.h - the CPUs and cores of this process -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_MACHINE_HOST_AVAILABLECPUS_H
#define ANABRANCH_MACHINE_HOST_AVAILABLECPUS_H

#include <string>
#include <string_view>
#include <vector>

namespace anabranch::machine {

/// The CPUs in the affinity mask of this process's main thread, in ascending
/// order. The kernel has already removed CPUs that a cpuset forbids.
std::vector<int> affinityOfProcess();

/// The same CPUs by core, in the order of each core's first CPU. Two CPUs of
/// one core (SMT siblings) share its arithmetic units, so a second worker there
/// gains little. `root` is put before the paths of the files read. A CPU
/// without a file is a core of its own.
std::vector<std::vector<int>> coresOf(const std::vector<int> &cpus,
                                      const std::string &root = "");

/// The CPUs as a list of ranges, such as "0-3,8".
std::string rangesOf(const std::vector<int> &cpus);
/// The numbers of such a list, up to the first part that is no range.
std::vector<int> cpusIn(std::string_view ranges);

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_HOST_AVAILABLECPUS_H
