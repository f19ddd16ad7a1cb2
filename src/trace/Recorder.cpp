//===- Recorder.cpp - slices of time, per thread --------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "trace/Recorder.h"

#include "trace/ChromeTrace.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <unistd.h>

namespace anabranch {
namespace trace {

namespace {
/// A thread finds its lane again without a lock.
thread_local Lane *myLane = nullptr;

/// Beyond this a lane drops slices rather than eat the machine's memory.
constexpr size_t laneLimit = size_t(4) << 20;

std::mutex &startStopMutex() {
  static std::mutex mutex;
  return mutex;
}
} // namespace

std::atomic<Recorder *> Recorder::current{nullptr};

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Recorder::startFromEnvironment() {
  static std::once_flag once;
  std::call_once(once, [] {
    const char *path = std::getenv("ANABRANCH_TRACE");
    if (!path || !*path)
      return;
    if (Status s = startTrace(path); s.ok())
      std::atexit([] {
        if (Status failed = stopTrace(); !failed.ok())
          std::fprintf(stderr, "anabranch: %s\n", failed.message().c_str());
      });
  });
}

Lane &Recorder::laneOfThisThread() {
  if (myLane)
    return *myLane;
  char name[32] = "";
  ::pthread_getname_np(::pthread_self(), name, sizeof(name));
  std::lock_guard<std::mutex> lock(mutex);
  lanes.push_back(std::make_unique<Lane>());
  myLane = lanes.back().get();
  myLane->thread = static_cast<int>(lanes.size());
  myLane->name = name;
  return *myLane;
}

void Recorder::add(Slice slice) {
  Lane &lane = laneOfThisThread();
  std::lock_guard<std::mutex> lock(lane.mutex);
  if (lane.slices.size() < laneLimit)
    lane.slices.push_back(std::move(slice));
}

std::vector<Recorder::Thread> Recorder::take() {
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<Thread> threads;
  for (const auto &lane : lanes) {
    std::lock_guard<std::mutex> laneLock(lane->mutex);
    if (!lane->slices.empty())
      threads.push_back({lane->thread, lane->name, std::move(lane->slices)});
    lane->slices = {};
  }
  return threads;
}

} // namespace trace

using trace::Recorder;

Status startTrace(const std::string &path) {
  std::lock_guard<std::mutex> lock(trace::startStopMutex());
  static Recorder *const recorder = new Recorder;
  if (Recorder::active())
    return Status(StatusCode::InvalidArgument, "a trace is already running");
  recorder->take(); // what calls in flight added after the last trace's end
  recorder->path = path;
  Recorder::current.store(recorder, std::memory_order_release);
  return {};
}

Status stopTrace() {
  std::lock_guard<std::mutex> lock(trace::startStopMutex());
  Recorder *recorder = Recorder::current.exchange(nullptr);
  if (!recorder)
    return Status(StatusCode::InvalidArgument, "no trace is running");
  return trace::writeChromeTrace(recorder->path, recorder->take());
}

} // namespace anabranch
