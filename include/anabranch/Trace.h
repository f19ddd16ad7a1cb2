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
/// `stopTrace` writes the file, as JSON that chrome://tracing and Perfetto open
/// and `anabranch report` makes a page of. The environment variable
/// ANABRANCH_TRACE=<file> does both, from the first `Executable::open` to the
/// end of the process. A forked child is not traced. Any thread; an error when
/// a trace is already running.
ANABRANCH_API Status startTrace(const std::string &path);

/// Writes the file. Slices of calls still in flight are missing.
ANABRANCH_API Status stopTrace();

/// Writes a warning on stderr: `program`, a colon and `text` or, where
/// ANABRANCH_LOG is "json", a line of JSON. Any thread.
ANABRANCH_API void warn(const std::string &program, const std::string &text);

/// What this machine can do, as a JSON object: "gflops", "gflops_all" (f32, one
/// CPU, all CPUs), "cache_gbs", "memory_gbs", "memory_gbs_all", "wake_us".
/// Measured once (half a second) and kept in the cache folder. Any thread.
ANABRANCH_API std::string describeMachine();

/// Hears of each call of an executable and of each slice in it, on the thread
/// that runs it, so that another profiler can show them among its own.
class ANABRANCH_API SliceListener {
public:
  virtual ~SliceListener();
  /// "linear, gelu (m.py:12)". The result is handed to `end`.
  virtual void *begin(const char *name) = 0;
  virtual void end(void *begun) = 0;
};

/// One listener at a time, null for none. It must live as long as any call that
/// began while it was set. Any thread.
ANABRANCH_API void setSliceListener(SliceListener *listener);

} // namespace anabranch

#endif // ANABRANCH_TRACE_H
