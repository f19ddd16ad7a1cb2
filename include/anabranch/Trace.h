//===- Trace.h - see what the runtime does, and when ------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_TRACE_H
#define ANABRANCH_TRACE_H

#include "anabranch/Status.h"

#include <string>

namespace anabranch {

/// Records every launch, copy and host call of every executable from now on.
/// The file is written by `stopTrace`, or when the process ends, as JSON that
/// chrome://tracing and ui.perfetto.dev open. The environment variable
/// ANABRANCH_TRACE=<file> does the same from the first `Executable::open` on.
/// Any thread; an error when a trace is already running.
ANABRANCH_API Status startTrace(const std::string &path);

/// Writes the file. Slices of calls still in flight may be missing.
ANABRANCH_API Status stopTrace();

} // namespace anabranch

#endif // ANABRANCH_TRACE_H
