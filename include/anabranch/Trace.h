//===- Trace.h - see what the runtime does, and when ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_TRACE_H
#define ANABRANCH_TRACE_H

#include "anabranch/Status.h"

#include <string>

namespace anabranch {

/// From now on, records every launch, copy and host call of every executable.
/// `stopTrace` writes the records to `path`, as JSON that chrome://tracing and
/// Perfetto open and that `anabranch report` makes a page of. The environment
/// variable ANABRANCH_TRACE=<file> traces from the first `Executable::open` to
/// the end of the process. A forked child is not traced. An error if a trace is
/// already running. Any thread.
ANABRANCH_API Status startTrace(const std::string &path);

/// Ends the trace and writes the file. It leaves out slices of calls in flight.
ANABRANCH_API Status stopTrace();

/// Writes a warning on stderr: `program`, a colon and `text` or, where
/// ANABRANCH_LOG is "json", a line of JSON. Any thread.
ANABRANCH_API void warn(const std::string &program, const std::string &text);

/// Measures this machine and returns a JSON object. "gflops" and "gflops_all":
/// f32 GFLOP/s of one CPU and of all. "cache_gbs", "memory_gbs" and
/// "memory_gbs_all": GB/s. "wake_us": microseconds. The measurement takes half
/// a second once, and is kept in the cache folder. Any thread.
ANABRANCH_API std::string describeMachine();

/// A listener hears of each call of an executable and of each slice in it, on
/// the thread that runs it. Another profiler can then show them among its own.
class ANABRANCH_API SliceListener {
public:
  virtual ~SliceListener();
  /// `name` is such as "linear, gelu (m.py:12)". `end` gets the result.
  virtual void *begin(const char *name) = 0;
  virtual void end(void *begun) = 0;
};

/// Sets the listener of this process; null: none. The listener must outlive
/// every call that began while it was set. Any thread.
ANABRANCH_API void setSliceListener(SliceListener *listener);

} // namespace anabranch

#endif // ANABRANCH_TRACE_H
