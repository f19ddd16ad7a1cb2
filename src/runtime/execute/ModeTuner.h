//===- ModeTuner.h - which way to run a program is quickest -----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Do several workers make a call faster? No model knows: it depends on how far
// apart the cores are, who else uses them, and how late a worker wakes. So a
// frame tries the other modes now and then, for a few calls, and keeps the
// quickest.
//
// A round is a rest without reading the clock, then a window of calls in the
// best mode. If it is another mode's turn, a window in that mode follows. The
// slower a mode was, the rarer are its turns, so that all trials together cost
// a known part of the time. An estimate rises slowly and falls fast: a
// disturbance of some calls must not look like a mode's fault.
//
// The tuner tries one worker alone for long calls too: on a busy machine that
// may be quickest. Such a trial ends after one call if that call is much
// slower, since a user would notice more of them.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_EXECUTE_MODETUNER_H
#define ANABRANCH_RUNTIME_EXECUTE_MODETUNER_H

#include <array>
#include <cstdint>
#include <vector>

namespace anabranch::runtime {

enum class ExecutionMode : uint8_t {
  Shared,         ///< streams, launches and tasks, by all workers
  MemberByMember, ///< likewise, but a super kernel's members are launches
  Serial,         ///< all commands by the caller
};

class ModeTuner {
public:
  /// The first mode counts as the best until calls were measured.
  explicit ModeTuner(std::vector<ExecutionMode> modes);

  /// Forgets all measurements. Call it when the sizes or the number of workers
  /// change.
  void reset(int threads);

  ExecutionMode fastest() const { return candidates[best].mode; }
  /// The mode of the next call: the best one, or the one on trial.
  ExecutionMode mode() const {
    return candidates[trying >= 0 ? trying : best].mode;
  }
  /// Call it once for each call. True if `record` wants to know how long the
  /// call takes.
  bool wantsTime();
  /// Records the nanoseconds of a call in `mode()`.
  void record(int64_t time);

  /// Calls of a window. A trial's first call is not counted, since it finds
  /// data in the wrong caches.
  static constexpr int window = 5;
  /// Calls between two windows, and before the first one.
  static constexpr int rest = 64, firstRest = 8;

private:
  /// A mode must be quicker than this part of the best time to become the best.
  static constexpr double worthChanging = 0.98;
  /// The trials of one mode may take this part of all time.
  static constexpr double trialCost = 0.005;
  static constexpr int mostPatience = 32; ///< rounds
  /// A call of this many nanoseconds, or more, is long.
  static constexpr double longCall = 500e3;
  /// With more workers than `fewWorkers`, the tuner does not try one alone if
  /// that could take `longestSerial` nanoseconds. With fewer, a trial takes no
  /// longer than calls on a busy machine do.
  static constexpr int fewWorkers = 4;
  static constexpr double longestSerial = 100e6;
  /// A trial whose first long call is slower by the factor `hopeless` ends with
  /// that call. The next trial comes at least `patienceAfterHopeless` rounds
  /// later.
  static constexpr double hopeless = 1.5;
  static constexpr double patienceAfterHopeless = 8;

  struct Candidate {
    ExecutionMode mode;
    double usual = 0; ///< nanoseconds; 0: not known yet
    int rounds = 0;   ///< since its last turn

    void update(double time);
  };

  double median() const;
  void beginRound(int length);
  void chooseBest();
  bool isDue(const Candidate &candidate) const;
  bool isHopeless(const Candidate &candidate, double time) const;
  int nextTrial();

  std::vector<Candidate> candidates;
  int workers = 1;
  int best = 0;
  int trying = -1; ///< the candidate in a window of its own
  int resting = 0; ///< calls still to come before the clock is read
  int count = 0;   ///< calls of the window so far
  std::array<int64_t, window> times{};
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_EXECUTE_MODETUNER_H
