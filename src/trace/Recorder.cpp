//===- Recorder.cpp - slices of time, per thread --------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "trace/Recorder.h"

#include "machine/limits/MachineLimits.h"
#include "process/Fork.h"
#include "trace/ChromeTrace.h"

#include <cstdio>
#include <cstdlib>
#include <new>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace anabranch::trace {

namespace {
/// Each thread finds its own track again without a lock.
thread_local Track *myTrack = nullptr;
thread_local const char *myKind = nullptr;
thread_local int myNumber = 0;

/// A track stores slices in pieces of this many. A vector would copy all slices
/// when it grows, in the middle of a measurement.
constexpr size_t pieceSize = 4096;

/// A track of this many pieces drops further slices, to bound its memory.
constexpr size_t pieceLimit = 1024;

std::mutex startStopMutex;
} // namespace

std::atomic<Recorder *> Recorder::current{nullptr};

void nameTrack(const char *kind, int number) {
  myKind = kind;
  myNumber = number;
}

Recorder &Recorder::get() {
  NoFork section;
  static Recorder *const recorder = new Recorder;
  return *recorder;
}

Recorder::Recorder() { ::pthread_atfork(nullptr, nullptr, forgetInChild); }

/// In a forked child the file is the parent's, and a thread that the child
/// lacks may hold a lock. So the child abandons the old tracks.
void Recorder::forgetInChild() {
  Recorder &recorder = get();
  new (&startStopMutex) std::mutex;
  new (&recorder.mutex) std::mutex;
  new (&recorder.tracks) std::vector<std::unique_ptr<Track>>;
  myTrack = nullptr;
  recorder.recording.store(false, std::memory_order_relaxed);
  recorder.publish();
}

void Recorder::publish() {
  bool wanted = recording.load() || listener.load();
  current.store(wanted ? this : nullptr, std::memory_order_release);
}

Status Recorder::begin(const std::string &file) {
  std::lock_guard<std::mutex> lock(startStopMutex);
  if (isRecording())
    return Status(StatusCode::InvalidArgument,
                  "a trace is already running, into " + path);
  // A file that cannot be written is an error at once, not after hours of
  // recording.
  std::FILE *opened = std::fopen(file.c_str(), "ae");
  if (!opened || std::fclose(opened) != 0)
    return Status(StatusCode::IoError, "cannot write the trace " + file);
  take(); // drops slices that calls in flight added after the last trace ended
  path = file;
  begun = Moment::read();
  recording.store(true);
  publish();
  return {};
}

void Recorder::startFromEnvironment() {
  NoFork section;
  static std::once_flag once;
  std::call_once(once, [] {
    const char *path = std::getenv("ANABRANCH_TRACE");
    if (!path || !*path)
      return;
    if (Status failed = get().begin(path); !failed.ok()) {
      warn("anabranch", failed.message());
      return;
    }
    static const pid_t owner = ::getpid();
    std::atexit([] {
      // The program may have stopped the trace itself.
      if (::getpid() != owner || !get().isRecording())
        return;
      if (Status failed = stopTrace(); !failed.ok())
        warn("anabranch", failed.message());
    });
  });
}

Track &Recorder::trackOfThisThread() {
  if (myTrack)
    return *myTrack;
  char name[32] = "";
  if (myKind)
    std::snprintf(name, sizeof(name), "%s-%d", myKind, myNumber);
  else
    ::pthread_getname_np(::pthread_self(), name, sizeof(name));
  std::lock_guard<std::mutex> lock(mutex);
  tracks.push_back(std::make_unique<Track>());
  myTrack = tracks.back().get();
  myTrack->record.thread = static_cast<int>(::syscall(SYS_gettid));
  myTrack->record.name = name;
  return *myTrack;
}

void Recorder::add(const Slice &slice) {
  Track &track = trackOfThisThread();
  std::lock_guard<std::mutex> lock(track.mutex);
  auto &pieces = track.record.slices;
  if (pieces.empty() || pieces.back().size() == pieceSize) {
    if (pieces.size() == pieceLimit) {
      ++track.record.dropped;
      return;
    }
    pieces.emplace_back().reserve(pieceSize);
  }
  pieces.back().push_back(slice);
}

void Recorder::add(CallRecord call) {
  Track &track = trackOfThisThread();
  std::lock_guard<std::mutex> lock(track.mutex);
  track.record.calls.push_back(std::move(call));
}

static void convert(ThreadRecord &record, const TickScale &scale) {
  auto inNanoseconds = [&](auto &span) {
    span.begin = scale.nanoseconds(span.begin);
    span.end = scale.nanoseconds(span.end);
  };
  for (std::vector<Slice> &piece : record.slices)
    for (Slice &slice : piece)
      inNanoseconds(slice);
  for (CallRecord &call : record.calls)
    inNanoseconds(call);
}

std::vector<ThreadRecord> Recorder::take() {
  TickScale scale(begun, Moment::read());
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<ThreadRecord> threads;
  for (const auto &track : tracks) {
    std::lock_guard<std::mutex> trackLock(track->mutex);
    ThreadRecord empty;
    empty.thread = track->record.thread;
    empty.name = track->record.name;
    std::swap(empty, track->record);
    convert(empty, scale);
    if (!empty.slices.empty() || !empty.calls.empty())
      threads.push_back(std::move(empty));
  }
  return threads;
}

void Call::start(const std::shared_ptr<const ProgramInfo> &info,
                 const std::vector<int64_t> &slots) {
  recording = recorder->isRecording();
  listener = recorder->listening();
  if (listener)
    heard = listener->begin(program.shown.c_str());
  if (recording)
    record = {recorder->nextCall(), ticks(), 0, info, slots};
}

void Call::finish() {
  if (recording) {
    record.end = ticks();
    recorder->add(std::move(record));
  }
  if (listener)
    listener->end(heard);
}

void OpenSlice::start() {
  if (call->listener)
    heard = call->listener->begin(
        call->program.labels[static_cast<size_t>(label)].shown.c_str());
  begin = call->recording ? ticks() : 0;
}

void OpenSlice::finish() {
  if (call->recording)
    call->recorder->add({begin, ticks(), call->record.id, tiles, label});
  if (call->listener)
    call->listener->end(heard);
}

} // namespace anabranch::trace

namespace anabranch {

using trace::Recorder;

SliceListener::~SliceListener() = default;

Status startTrace(const std::string &path) {
  // Otherwise the trace of the environment would begin, and fail, during this
  // one.
  Recorder::startFromEnvironment();
  return Recorder::get().begin(path);
}

Status stopTrace() {
  Recorder &recorder = Recorder::get();
  std::lock_guard<std::mutex> lock(trace::startStopMutex);
  if (!recorder.recording.exchange(false))
    return Status(StatusCode::InvalidArgument, "no trace is running");
  recorder.publish();
  return trace::writeChromeTrace(recorder.path, recorder.take());
}

std::string describeMachine() { return machine::describeLimits(); }

void setSliceListener(SliceListener *listener) {
  Recorder &recorder = Recorder::get();
  std::lock_guard<std::mutex> lock(trace::startStopMutex);
  recorder.listener.store(listener);
  recorder.publish();
}

} // namespace anabranch
