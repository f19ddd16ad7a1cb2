//===- ChromeTrace.h - slices as Chrome's JSON ------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_TRACE_CHROMETRACE_H
#define ANABRANCH_TRACE_CHROMETRACE_H

#include "trace/Recorder.h"

namespace anabranch::trace {

/// The "Trace Event Format": one complete event per slice, threads named.
std::string toChromeJson(const std::vector<Recorder::Thread> &threads);

Status writeChromeTrace(const std::string &path,
                        const std::vector<Recorder::Thread> &threads);

} // namespace anabranch::trace

#endif // ANABRANCH_TRACE_CHROMETRACE_H
