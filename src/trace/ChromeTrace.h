//===- ChromeTrace.h - slices as Chrome's JSON ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_TRACE_CHROMETRACE_H
#define ANABRANCH_TRACE_CHROMETRACE_H

#include "anabranch/Trace.h"
#include "trace/Records.h"

namespace anabranch::trace {

/// The "Trace Event Format"; docs/design/trace.md says what is in it. Slices
/// whose call has not ended are left out.
Status writeChromeTrace(const std::string &path,
                        std::vector<ThreadRecord> threads);

} // namespace anabranch::trace

#endif // ANABRANCH_TRACE_CHROMETRACE_H
