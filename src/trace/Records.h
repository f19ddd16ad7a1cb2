//===- Records.h - what a trace collects ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_TRACE_RECORDS_H
#define ANABRANCH_TRACE_RECORDS_H

#include "trace/ProgramInfo.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace anabranch::trace {

/// A piece of a command's work on one thread. The writer looks shapes and work
/// up, so that a slice is a few words.
struct Slice {
  int64_t begin, end; ///< nanoseconds; in a track, ticks
  int64_t call;       ///< CallRecord::id
  int64_t tiles;      ///< 0: not a launch
  int label;
};

/// One run of a program.
struct CallRecord {
  int64_t id;
  int64_t begin, end;
  std::shared_ptr<const ProgramInfo> program;
  std::vector<int64_t> slots; ///< the size table
};

/// The records of one thread.
struct ThreadRecord {
  int thread = 0; ///< the system's number
  std::string name;
  std::vector<std::vector<Slice>> slices; ///< in pieces, none of which moves
  std::vector<CallRecord> calls;
  int64_t dropped = 0; ///< slices beyond the limit
};

} // namespace anabranch::trace

#endif // ANABRANCH_TRACE_RECORDS_H
