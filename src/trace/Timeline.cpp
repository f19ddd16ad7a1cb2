//===- Timeline.cpp - slices of threads, put together by call -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "trace/Timeline.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace anabranch::trace {

static void addPiece(TimelineCall &call, const Piece &piece) {
  const Slice &slice = piece.slice;
  if (call.executions.empty() || call.executions.back().label != slice.label)
    call.executions.push_back({slice.label, slice.begin, slice.end, 0, {}});
  Execution &execution = call.executions.back();
  execution.begin = std::min(execution.begin, slice.begin);
  execution.end = std::max(execution.end, slice.end);
  execution.tiles += slice.tiles;
  execution.pieces.push_back(piece);
}

/// A super kernel runs as long as its launches, whose labels follow its own.
static void addSupers(TimelineCall &call) {
  const std::vector<Label> &labels = call.record.program->labels;
  std::vector<Execution> all;
  int last = -1;
  size_t place = 0; // of the last super kernel
  for (Execution &execution : call.executions) {
    int super = labels[static_cast<size_t>(execution.label)].super;
    if (super >= 0 && super != last) {
      place = all.size();
      last = super;
      all.push_back({super, execution.begin, execution.end, 0, {}});
    }
    if (super >= 0) {
      all[place].begin = std::min(all[place].begin, execution.begin);
      all[place].end = std::max(all[place].end, execution.end);
      all[place].tiles += execution.tiles;
    }
    all.push_back(std::move(execution));
  }
  call.executions = std::move(all);
}

/// Gives each call the first track of its program that is free when the call
/// begins.
static void chooseTracks(std::vector<TimelineCall> &calls) {
  std::map<const ProgramInfo *, std::vector<int64_t>> busyUntil;
  for (TimelineCall &call : calls) {
    std::vector<int64_t> &tracks = busyUntil[call.record.program.get()];
    auto free = std::find_if(tracks.begin(), tracks.end(), [&](int64_t end) {
      return end <= call.record.begin;
    });
    call.track = static_cast<int>(free - tracks.begin());
    if (free == tracks.end())
      tracks.push_back(call.record.end);
    else
      *free = call.record.end;
  }
}

Timeline makeTimeline(std::vector<ThreadRecord> threads) {
  Timeline timeline;
  std::vector<Piece> pieces;
  for (size_t t = 0; t < threads.size(); ++t) {
    for (CallRecord &call : threads[t].calls)
      timeline.calls.push_back({std::move(call), static_cast<int>(t), 0, {}});
    for (const std::vector<Slice> &piece : threads[t].slices)
      for (const Slice &slice : piece)
        pieces.push_back({slice, static_cast<int>(t)});
    timeline.dropped += threads[t].dropped;
    threads[t].calls.clear();
    threads[t].slices.clear();
  }
  timeline.threads = std::move(threads);
  std::sort(timeline.calls.begin(), timeline.calls.end(),
            [](const TimelineCall &a, const TimelineCall &b) {
              return a.record.begin < b.record.begin;
            });
  if (!timeline.calls.empty())
    timeline.origin = timeline.calls.front().record.begin;
  std::sort(pieces.begin(), pieces.end(), [](const Piece &a, const Piece &b) {
    return std::tie(a.slice.call, a.slice.label, a.slice.begin) <
           std::tie(b.slice.call, b.slice.label, b.slice.begin);
  });
  std::unordered_map<int64_t, TimelineCall *> byId;
  for (TimelineCall &call : timeline.calls)
    byId[call.record.id] = &call;
  for (const Piece &piece : pieces)
    if (auto call = byId.find(piece.slice.call); call != byId.end())
      addPiece(*call->second, piece);
  for (TimelineCall &call : timeline.calls)
    addSupers(call);
  chooseTracks(timeline.calls);
  return timeline;
}

} // namespace anabranch::trace
