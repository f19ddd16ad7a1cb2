//===- Caches.h - the caches that a CPU reads through -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_MACHINE_PROCESSOR_CACHES_H
#define ANABRANCH_MACHINE_PROCESSOR_CACHES_H

#include <cstdint>
#include <string>
#include <vector>

namespace anabranch::machine {

/// A cache of data, or of data and instructions.
struct Cache {
  int level;
  int64_t bytes, lineBytes; ///< zero: the system does not say
  /// The CPUs that share the cache, as a list of ranges such as "0-3,8".
  std::string cpus;
};

/// The caches of a CPU from the nearest on, as the files of Linux say. `root`
/// is put before their paths. Empty if they say nothing.
std::vector<Cache> cachesOf(int cpu, const std::string &root = "");

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_PROCESSOR_CACHES_H
