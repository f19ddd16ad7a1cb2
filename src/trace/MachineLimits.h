//===- MachineLimits.h - what this machine can do, measured -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_TRACE_MACHINELIMITS_H
#define ANABRANCH_TRACE_MACHINELIMITS_H

#include "trace/MeasureMachine.h"

namespace anabranch::trace {

/// The folder for everything that is kept between processes:
/// ANABRANCH_CACHE_HOME, else `anabranch` in XDG_CACHE_HOME or in ~/.cache.
/// Empty without a home.
std::string cacheFolder();

/// Reads the limits of this machine from the cache folder, or measures them
/// (half a second) and stores them there. If the folder cannot be written, each
/// process measures them once. Any thread.
const MachineLimits &machineLimits();

} // namespace anabranch::trace

#endif // ANABRANCH_TRACE_MACHINELIMITS_H
