//===- ModeTuner.h - which way to run a program is quickest -----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Whether workers are worth their while depends on what no model knows: how far
// apart the cores are, who else uses them, how late a worker wakes. So a frame
// tries the other modes now and then, for a few calls, and keeps the quickest.
//
// A round is a rest without a look at the clock, then a window of calls in the
// best mode, then, if it is one's turn, a window in another mode. The slower a
// mode was, the rarer are its turns, so that all trials together cost a known
// part of the time. An estimate rises slowly and falls fast: what disturbs
// some calls for a moment must not look like a mode's fault.
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
  Serial,         ///< everything by the caller
};

class ModeTuner {
public:
  /// The first mode is what is taken for the best before anything is measured.
  explicit ModeTuner(std::vector<ExecutionMode> modes);

  /// Forgets all measurements: sizes or the number of workers are others now.
  void reset(int threads);

  ExecutionMode fastest() const { return candidates[best].mode; }
  /// That, or another one in its trial.
  ExecutionMode mode() const {
    return candidates[trying >= 0 ? trying : best].mode;
  }
  /// Once for each call: whether `record` wants to know how long it takes.
  bool wantsTime();
  /// Nanoseconds of a call in `mode()`.
  void record(int64_t time);

  /// Calls of a window; the first of one in another mode is not counted, since
  /// it finds data in the wrong caches.
  static constexpr int window = 5;
  /// Calls between two windows, and before the first.
  static constexpr int rest = 64, firstRest = 8;

private:
  /// A mode must be quicker by this to take another one's place.
  static constexpr double worthChanging = 0.98;
  /// What the trials of one mode may cost, as part of all time.
  static constexpr double trialCost = 0.005;
  static constexpr int mostPatience = 32; ///< rounds
  /// Nanoseconds from which on a call is long.
  static constexpr double longCall = 500e3;
  /// With more workers than `fewWorkers`, the tuner does not try one alone if
  /// that could take `longestSerial` nanoseconds. With fewer, a trial takes no
  /// longer than calls on a busy machine do.
  static constexpr int fewWorkers = 4;
  static constexpr double longestSerial = 100e6;
  /// A trial whose first long call is slower by the factor `hopeless` ends with
  /// that call. The next trial comes `patienceAfterHopeless` rounds later, or
  /// more.
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
  int resting = 0; ///< calls still to come without a look at the clock
  int count = 0;   ///< of the window's calls
  std::array<int64_t, window> times{};
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_EXECUTE_MODETUNER_H
