//===- Timeline.h - slices of threads, put together by call -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_TRACE_TIMELINE_H
#define ANABRANCH_TRACE_TIMELINE_H

#include "trace/Records.h"

namespace anabranch::trace {

/// One thread's work for one command.
struct Piece {
  Slice slice;
  int thread; ///< in Timeline::threads
};

/// One command of one call, on all threads that ran it.
struct Execution {
  int label;
  int64_t begin, end;        ///< of its first and last piece
  int64_t tiles;             ///< of all pieces
  std::vector<Piece> pieces; ///< none of a super kernel: its launches have them
};

struct TimelineCall {
  CallRecord record;
  int thread = 0; ///< of the caller
  int track = 0;  ///< calls of one program that overlap have different tracks
  std::vector<Execution> executions; ///< by label; launches in supers, too
};

struct Timeline {
  std::vector<ThreadRecord> threads; ///< without their slices
  std::vector<TimelineCall> calls;   ///< by their begin
  int64_t origin = 0;                ///< the first moment of all
  int64_t dropped = 0;               ///< slices beyond the limit
};

Timeline makeTimeline(std::vector<ThreadRecord> threads);

} // namespace anabranch::trace

#endif // ANABRANCH_TRACE_TIMELINE_H
