//===- CallsInFlight.h - calls take turns when CPUs are few -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_WORKERS_CALLSINFLIGHT_H
#define ANABRANCH_RUNTIME_WORKERS_CALLSINFLIGHT_H

#include <atomic>
#include <cstdint>
#include <mutex>

namespace anabranch::runtime {

/// How many calls may run at a time without being in each other's way.
struct CallLimits {
  int alone = 2; ///< the cores: so many calls stay on their own threads
  int most = 2;  ///< the CPUs: more calls than this take turns
};

/// The calls of this process that run now, and those that wait for their turn,
/// in the order in which they came. Any thread.
class CallsInFlight {
public:
  static CallsInFlight &get();
  explicit CallsInFlight(CallLimits (*limits)());

  /// Counts a call. If it `waits`, and as many calls run as may, it first
  /// sleeps until it is its turn.
  void enter(bool waits);
  void leave();

  /// Whether as many calls run as there are cores. Then helpers take a CPU from
  /// another call.
  bool isCrowded() const {
    return running() >= crowd.load(std::memory_order_relaxed);
  }
  /// Whether it is crowded, or was a moment ago: between two calls a caller
  /// does other things.
  bool wasCrowded() const;
  /// Whether there is, and was a moment ago, at most one call.
  bool isAlone() const;

private:
  struct Waiter {
    std::atomic<uint32_t> itsTurn{0};
    Waiter *next = nullptr;
  };
  /// The calls that run, and those that wait, in one word.
  static constexpr uint64_t oneRunning = 1, oneWaiting = uint64_t(1) << 32;
  static int runningIn(uint64_t word) { return static_cast<int>(word); }
  static int waitingIn(uint64_t word) { return static_cast<int>(word >> 32); }
  int running() const {
    return runningIn(state.load(std::memory_order_relaxed));
  }

  bool mayEnter(uint64_t word) const {
    return waitingIn(word) == 0 &&
           runningIn(word) < most.load(std::memory_order_relaxed);
  }
  bool enterAtOnce();
  void waitForTurn();
  void wakeFirst();
  void noteOthers(int calls);

  CallLimits (*const limits)();
  const uint32_t depth; ///< the forks up to this process
  std::atomic<uint64_t> state{0};
  std::atomic<int> crowd{2}, most{2};
  /// When there was last more than one call, or a crowd: nanoseconds of the
  /// coarse clock.
  std::atomic<int64_t> lastShared{0}, lastCrowd{0};
  std::mutex queue; ///< guards the list of waiters
  Waiter *first = nullptr, *last = nullptr;
};

/// One call in flight, from construction to destruction.
class CallTurn {
public:
  /// `place` points to the turn as long as it exists.
  CallTurn(CallTurn *&place, bool waits)
      : place(place), calls(CallsInFlight::get()) {
    calls.enter(waits);
    place = this;
  }
  ~CallTurn() {
    place = nullptr;
    calls.leave();
  }
  CallTurn(const CallTurn &) = delete;
  CallTurn &operator=(const CallTurn &) = delete;

  bool wasCrowded() const { return calls.wasCrowded(); }

  /// While the host runs, the call is not in flight: the host may wait for
  /// another call. Afterwards it goes on at once. `turn` may be null.
  class Pause {
  public:
    explicit Pause(CallTurn *turn) : turn(turn) {
      if (turn)
        turn->calls.leave();
    }
    ~Pause() {
      if (turn)
        turn->calls.enter(/*waits=*/false);
    }
    Pause(const Pause &) = delete;
    Pause &operator=(const Pause &) = delete;

  private:
    CallTurn *const turn;
  };

private:
  CallTurn *&place;
  CallsInFlight &calls;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_WORKERS_CALLSINFLIGHT_H
