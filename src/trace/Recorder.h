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
#include <set>
#include <string>
#include <vector>

namespace anabranch::trace {

/// What a slice shows. Tables outlive their slices: the recorder keeps them.
struct Label {
  std::string name;      ///< kernel or operator
  std::string operators; ///< "linear, gelu"
  std::string file;
  int line = 0;
  std::string function;
};
using LabelTable = std::vector<Label>;

struct Slice {
  int64_t begin, end; ///< nanoseconds, see now()
  const Label *label;
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

/// Collects slices while a trace runs. Any thread.
class Recorder {
public:
  /// Null unless a trace runs: the one branch that tracing costs when off.
  static Recorder *active() { return current.load(std::memory_order_acquire); }

  /// Starts a trace if ANABRANCH_TRACE asks for one; the first call decides.
  static void startFromEnvironment();

  /// Keeps a table alive until the file is written.
  void retain(const std::shared_ptr<const LabelTable> &table);
  void add(const Slice &slice);

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
  std::set<std::shared_ptr<const LabelTable>> tables; // guarded by mutex
  std::vector<std::unique_ptr<Lane>> lanes;           // guarded by mutex
  std::string path;
  uint64_t generation = 0;
};

/// Measures from construction to destruction when `recorder` is not null.
class Scope {
public:
  Scope(Recorder *recorder, const Label *label, int stream,
        int64_t firstTile = 0, int64_t tiles = 0)
      : recorder(recorder) {
    if (recorder)
      slice = {now(), 0, label, firstTile, tiles, stream};
  }
  ~Scope() {
    if (recorder) {
      slice.end = now();
      recorder->add(slice);
    }
  }
  Scope(const Scope &) = delete;
  Scope &operator=(const Scope &) = delete;

private:
  Recorder *recorder;
  Slice slice;
};

} // namespace anabranch::trace

#endif // ANABRANCH_TRACE_RECORDER_H
