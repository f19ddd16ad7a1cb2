//===- Recorder.h - slices of time, per thread ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_TRACE_RECORDER_H
#define ANABRANCH_TRACE_RECORDER_H

#include "anabranch/Trace.h"
#include "trace/Clock.h"
#include "trace/Records.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace anabranch::trace {

/// The slices of one thread. Only that thread adds to it; the lock is for the
/// writer.
struct Track {
  std::mutex mutex;
  ThreadRecord record;
};

/// Calls the track of this thread `kind` and its number, unless it has begun.
/// The text must live for ever. Without this, a track has the thread's name.
void nameTrack(const char *kind, int number);

/// Collects slices while a trace runs, and tells a listener of them. The
/// process has one recorder. It is never destroyed, since a call in flight may
/// hold it when a trace ends. Any thread.
class Recorder {
public:
  /// Null unless a trace runs or a listener is set. This branch is all that
  /// tracing costs when it is off.
  static Recorder *active() { return current.load(std::memory_order_acquire); }

  /// Starts a trace if ANABRANCH_TRACE asks for one. Only the first call has an
  /// effect.
  static void startFromEnvironment();

  bool isRecording() const { return recording.load(std::memory_order_relaxed); }
  SliceListener *listening() const {
    return listener.load(std::memory_order_acquire);
  }

  int64_t nextCall() { return calls.fetch_add(1, std::memory_order_relaxed); }
  void add(const Slice &slice);
  void add(CallRecord call);

  /// Moves all slices recorded so far to the writer.
  std::vector<ThreadRecord> take();

private:
  friend Status anabranch::startTrace(const std::string &);
  friend Status anabranch::stopTrace();
  friend void anabranch::setSliceListener(SliceListener *);

  static Recorder &get();
  Recorder();
  Status begin(const std::string &file);
  Track &trackOfThisThread();
  /// Sets `active` according to `recording` and `listener`.
  void publish();
  static void forgetInChild();

  static std::atomic<Recorder *> current;

  std::atomic<bool> recording{false};
  std::atomic<SliceListener *> listener{nullptr};
  std::atomic<int64_t> calls{0};
  std::mutex mutex;
  std::vector<std::unique_ptr<Track>> tracks; // guarded by mutex
  std::string path;
  Moment begun{};
};

/// One run of a program, from construction to destruction. `recorder` may be
/// null.
class Call {
public:
  Call(Recorder *recorder, const std::shared_ptr<const ProgramInfo> &program,
       const std::vector<int64_t> &slots)
      : recorder(recorder), program(*program) {
    if (recorder)
      start(program, slots);
  }
  ~Call() {
    if (recorder)
      finish();
  }
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;

  /// The argument of an OpenSlice: null if nothing is recorded.
  const Call *orNull() const { return recorder ? this : nullptr; }

private:
  friend class OpenSlice;
  void start(const std::shared_ptr<const ProgramInfo> &program,
             const std::vector<int64_t> &slots);
  void finish();

  Recorder *const recorder;
  const ProgramInfo &program;
  SliceListener *listener = nullptr;
  void *heard = nullptr;
  bool recording = false;
  CallRecord record{};
};

/// Records a slice from construction to destruction, if `call` is not null.
class OpenSlice {
public:
  OpenSlice(const Call *call, int label, int64_t tiles = 0)
      : call(call), label(label), tiles(tiles) {
    if (call)
      start();
  }
  ~OpenSlice() {
    if (call)
      finish();
  }
  OpenSlice(const OpenSlice &) = delete;
  OpenSlice &operator=(const OpenSlice &) = delete;

private:
  void start();
  void finish();

  const Call *const call;
  const int label;
  const int64_t tiles;
  int64_t begin = 0;
  void *heard = nullptr;
};

} // namespace anabranch::trace

#endif // ANABRANCH_TRACE_RECORDER_H
