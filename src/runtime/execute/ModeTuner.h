//===- ModeTuner.h - which way to run a program is quickest -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Do several workers make a call faster? No model knows: it depends on how far
// apart the cores are, who else uses them, and how late a worker wakes. So a
// frame tries the other modes now and then, for a few calls, and keeps the
// quickest.
//
// A round is a rest without reading the clock, then a window of calls in the
// best mode. If it is another mode's turn, a window in that mode follows: its
// trial. A trial ends early once it is clearly slower. After a trial the mode
// waits, so that all its trials cost a known part of the time.
//
// A measurement holds only as long as the machine is as it was. The machine has
// changed if nearly all calls of a window are much quicker than usual, or much
// slower in two windows: a disturbance of some calls must not look like a
// mode's fault. After a change the other modes are measured anew before their
// turn. Such a trial adds to what the mode must wait, and a mode that waits
// long already gets none: noise cannot make trials cost more.
//
// The tuner tries one worker alone for long calls too: on a busy machine that
// may be quickest.

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
  static constexpr double longestWait = 2200; ///< calls
  /// A call of this many nanoseconds, or more, is long.
  static constexpr double longCall = 500e3;
  /// With more workers than `fewWorkers`, the tuner does not try one alone if
  /// that could take `longestSerial` nanoseconds. With fewer, a trial takes no
  /// longer than calls on a busy machine do.
  static constexpr int fewWorkers = 4;
  static constexpr double longestSerial = 100e6;
  /// A trial ends with the second call that is slower than the best mode by the
  /// factor `slower`, or with the first long call slower by `hopeless`. A user
  /// notices a call of the second kind, so that mode waits at least
  /// `waitAfterHopeless` calls.
  static constexpr double slower = 1.2, hopeless = 1.5;
  static constexpr double waitAfterHopeless = 350;
  /// Times of a window that differ from the usual one by this factor mean
  /// another machine.
  static constexpr double otherMachine = 1.25;

  enum class Machine : uint8_t { AsUsual, Quicker, Slower };

  struct Candidate {
    ExecutionMode mode;
    double usual = 0;     ///< nanoseconds; 0: not known yet
    double wait = 0;      ///< calls until its turn
    bool isStale = false; ///< measured before the machine changed

    void update(double time);
  };

  Machine machineOf(const Candidate &candidate) const;
  double timeOf(int rank) const;
  double median() const { return timeOf(window / 2); }
  void recordWindow();
  void recordTrial();
  bool trialIsOver() const;
  double timeOfShortTrial() const;
  void beginRound(int length);
  void chooseBest();
  bool mayBeTried(const Candidate &candidate) const;
  bool isDueEarly(const Candidate &candidate) const;
  double waitAfterTrial(const Candidate &candidate) const;
  int nextTrial() const;
  bool isUnsure() const;
  bool isLong() const { return candidates[best].usual > longCall; }

  std::vector<Candidate> candidates;
  int workers = 1;
  int best = 0;
  int trying = -1;        ///< the candidate in a window of its own
  int resting = 0;        ///< calls still to come before the clock is read
  int round = 0;          ///< calls of this round, but for those of a trial
  int count = 0;          ///< calls of the window so far
  bool wasSlower = false; ///< the last window was, for the first time
  std::array<int64_t, window> times{};
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_EXECUTE_MODETUNER_H
