//===- StreamState.h - what workers may claim of a stream -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A stream is at one command at a time. The worker that completes the command
// advances the stream: it runs small commands itself, and publishes in one word
// the work that other workers may claim.
//
// A stream only moves forward during a call, so no word comes back, and a
// compare-and-swap is enough. Between calls no worker looks at the words.

#ifndef ANABRANCH_RUNTIME_EXECUTE_STREAMSTATE_H
#define ANABRANCH_RUNTIME_EXECUTE_STREAMSTATE_H

#include "machine/processor/MemoryUnits.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace anabranch::runtime {

/// The work of a stream that workers may claim:
///
/// 0                              nothing
/// (command + 1) << 40 | taken    tiles of a launch but those at both ends
/// ... | advance                  the right to advance the stream
/// ... | host                     a call into the host, for the caller only
/// ... | super                    tasks of a super kernel, while there are any
struct ClaimWord {
  static constexpr int commandShift = 40;
  static constexpr uint64_t advance = uint64_t(1) << 39;
  static constexpr uint64_t host = uint64_t(1) << 38;
  static constexpr uint64_t super = uint64_t(1) << 37;
  /// How many units of tiles are taken at the front and, shifted, at the back.
  static constexpr int unitBits = 18;
  static constexpr uint64_t unitMask = (uint64_t(1) << unitBits) - 1;
  static constexpr int64_t maxUnits = unitMask;

  uint64_t bits = 0;

  static ClaimWord of(int command, uint64_t flags) {
    return {uint64_t(command + 1) << commandShift | flags};
  }
  bool isNothing() const { return bits == 0; }
  bool isAdvance() const { return bits & advance; }
  bool isHost() const { return bits & host; }
  bool isSuper() const { return bits & super; }
  size_t command() const {
    return static_cast<size_t>(bits >> commandShift) - 1;
  }
  int64_t front() const { return static_cast<int64_t>(bits & unitMask); }
  int64_t back() const {
    return static_cast<int64_t>(bits >> unitBits & unitMask);
  }
  /// The word after more units were claimed, all at one end.
  ClaimWord after(int64_t units, bool atFront) const {
    return {bits + (static_cast<uint64_t>(units) << (atFront ? 0 : unitBits))};
  }
};

/// One stream of a call.
struct alignas(machine::lineBytes) StreamState {
  std::atomic<uint64_t> claim{0}; ///< a ClaimWord
  std::atomic<int64_t> unfinished{0};
  int cursor = 0; ///< of the worker that advances the stream

  ClaimWord word(std::memory_order order) const { return {claim.load(order)}; }
};

/// One event of a call.
struct EventState {
  /// Bit 63: the event is recorded. Bit n: stream n waits for it.
  std::atomic<uint64_t> word{0};
  static constexpr uint64_t recorded = uint64_t(1) << 63;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_EXECUTE_STREAMSTATE_H
