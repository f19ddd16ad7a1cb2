//===- Recorder.h - slices of time, per thread ------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_TRACE_RECORDER_H
#define ANABRANCH_TRACE_RECORDER_H

#include "anabranch/Trace.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace anabranch::trace {

/// What a slice shows.
struct Label {
  std::string name;      ///< kernel or operator
  std::string operators; ///< "linear, gelu"
  std::string file;
  int line = 0;
  std::string function;
};
using LabelTable = std::vector<Label>;

/// A slice keeps its executable's labels alive.
struct Slice {
  int64_t begin, end; ///< nanoseconds, see now()
  std::shared_ptr<const LabelTable> labels;
  int label;
  int64_t firstTile, tiles; ///< tiles 0: not a launch
  int stream;
};

/// Nanoseconds of the steady clock.
int64_t now();

/// The slices of one thread. Only that thread adds; the lock is for the writer.
struct Lane {
  int thread;
  std::string name;
  std::mutex mutex;
  std::vector<Slice> slices;
};

/// Collects slices while a trace runs. There is one for the whole process,
/// never destroyed, since a call in flight may hold it when a trace ends. Any
/// thread.
class Recorder {
public:
  /// Null unless a trace runs: the one branch that tracing costs when off.
  static Recorder *active() { return current.load(std::memory_order_acquire); }

  /// Starts a trace if ANABRANCH_TRACE asks for one; the first call decides.
  static void startFromEnvironment();

  void add(Slice slice);

  /// What one thread recorded.
  struct Thread {
    int thread;
    std::string name;
    std::vector<Slice> slices;
  };
  /// Takes everything recorded so far out, for the writer.
  std::vector<Thread> take();

private:
  friend Status anabranch::startTrace(const std::string &);
  friend Status anabranch::stopTrace();

  Lane &laneOfThisThread();

  static std::atomic<Recorder *> current;

  std::mutex mutex;
  std::vector<std::unique_ptr<Lane>> lanes; // guarded by mutex
  std::string path;
};

/// Measures from construction to destruction when `recorder` is not null.
class Scope {
public:
  Scope(Recorder *recorder, const std::shared_ptr<const LabelTable> &labels,
        int label, int stream, int64_t firstTile = 0, int64_t tiles = 0)
      : recorder(recorder), labels(labels), label(label), stream(stream),
        firstTile(firstTile), tiles(tiles), begin(recorder ? now() : 0) {}
  ~Scope() {
    if (recorder)
      recorder->add({begin, now(), labels, label, firstTile, tiles, stream});
  }
  Scope(const Scope &) = delete;
  Scope &operator=(const Scope &) = delete;

private:
  Recorder *const recorder;
  const std::shared_ptr<const LabelTable> &labels;
  const int label, stream;
  const int64_t firstTile, tiles, begin;
};

} // namespace anabranch::trace

#endif // ANABRANCH_TRACE_RECORDER_H
