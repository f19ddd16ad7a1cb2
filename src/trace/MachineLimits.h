//===- MachineLimits.h - what this machine can do, measured -----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_TRACE_MACHINELIMITS_H
#define ANABRANCH_TRACE_MACHINELIMITS_H

#include "anabranch/Status.h"

#include <string>

namespace anabranch::trace {

/// The best that the machine reached in a few short loops: f32
/// multiply-add, and reading memory. All CPUs of the process together where it
/// says so.
struct MachineLimits {
  std::string cpu; ///< "AMD EPYC 9R14, 2 CPUs"
  double gflops = 0, gflopsAll = 0;
  double cacheGBs = 0; ///< from the second-level cache, one CPU
  double memoryGBs = 0, memoryGBsAll = 0;
  double wakeMicroseconds = 0; ///< from a wake-up call to the other's answer
};

/// Where what is kept between processes lies: ANABRANCH_CACHE_HOME, or
/// `anabranch` in XDG_CACHE_HOME or ~/.cache; empty without a home.
std::string cacheFolder();

/// Reads them from the cache folder, or measures (half a second) and stores
/// them there; without a folder to write to they are measured once per process.
/// Any thread.
const MachineLimits &machineLimits();

/// Always measures.
MachineLimits measureMachineLimits();

} // namespace anabranch::trace

#endif // ANABRANCH_TRACE_MACHINELIMITS_H
