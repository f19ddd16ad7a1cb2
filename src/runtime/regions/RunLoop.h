//===- RunLoop.h - run a region again and again -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_REGIONS_RUNLOOP_H
#define ANABRANCH_RUNTIME_REGIONS_RUNLOOP_H

#include "runtime/regions/RegionCaller.h"

namespace anabranch::runtime {

/// Runs the trips of loop `number`. Trips update carried values where they lie,
/// or write them into two sets of buffers in turns; the last of these end up in
/// the results. The host is asked now and then whether to go on. Only the
/// thread that called the program may run it.
Status runLoop(const RegionCaller &caller, int number);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_REGIONS_RUNLOOP_H
