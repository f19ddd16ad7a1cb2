//===- MachineLimits.h - what this machine can do, measured -----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_TRACE_MACHINELIMITS_H
#define ANABRANCH_TRACE_MACHINELIMITS_H

#include "trace/MeasureMachine.h"

namespace anabranch::trace {

/// Where what is kept between processes lies: ANABRANCH_CACHE_HOME, or
/// `anabranch` in XDG_CACHE_HOME or ~/.cache; empty without a home.
std::string cacheFolder();

/// Reads this machine's from the cache folder, or measures (half a second) and
/// stores them there; without a folder to write to they are measured once per
/// process. Any thread.
const MachineLimits &machineLimits();

} // namespace anabranch::trace

#endif // ANABRANCH_TRACE_MACHINELIMITS_H
