//===- RunLoop.cpp - run a region again and again -------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/regions/RunLoop.h"

#include "runtime/regions/RegionRun.h"
#include "trace/Clock.h"

namespace anabranch::runtime {

namespace {

/// How often the host is asked whether to go on, in nanoseconds.
constexpr int64_t pollPeriod = 20'000'000;

class LoopRun {
public:
  LoopRun(const RegionCaller &caller, const LoopPlan &loop)
      : caller(caller), loop(loop), region(caller) {
    for (const RegionArgument &argument : loop.carried)
      carried.push_back(caller.buffers.viewOf(argument.buffer));
  }

  Status run() {
    int64_t trips = valueOf(loop.trips, caller.slots);
    if (Status s = checkSlices(trips); !s.ok())
      return s;
    for (int64_t trip = 0; loop.condition >= 0 || trip < trips; ++trip) {
      bool goesOn = true;
      if (Status s = evaluateCondition(goesOn); !s.ok())
        return s;
      if (!goesOn)
        break;
      if (Status s = runBody(trip); !s.ok())
        return s;
      if (Status s = poll(); !s.ok())
        return s;
    }
    settle();
    return {};
  }

private:
  /// Each trip reads and writes one slice of these tensors.
  Status checkSlices(int64_t trips) const {
    bool fits = true;
    for (const RegionArgument &scanned : loop.scanned)
      fits &= caller.buffers.viewOf(scanned.buffer).shape[0] == trips;
    for (int stacked : loop.stacked)
      fits &= caller.buffers.viewOf(stacked).shape[0] == trips;
    return fits ? Status()
                : Status(StatusCode::InvalidArgument,
                         "a loop of " + std::to_string(trips) +
                             " trips has tensors of another length");
  }

  void passCarried() {
    for (const TensorView &value : carried)
      region.pass(value);
  }

  /// A device that computes nothing makes no trip.
  Status evaluateCondition(bool &holds) {
    if (loop.condition < 0)
      return {};
    passCarried();
    region.pass(loop.arguments);
    region.take(caller.buffers.viewOf(loop.predicate));
    Status done = region.run(loop.condition);
    holds = caller.holds(loop.predicate);
    return done;
  }

  Status runBody(int64_t trip) {
    const std::vector<int> &made = trip % 2 == 0 ? loop.results : loop.spare;
    passCarried();
    for (const RegionArgument &scanned : loop.scanned)
      region.pass(sliceOf(caller.buffers.viewOf(scanned.buffer), trip));
    region.pass(loop.arguments);
    region.take(made);
    for (int buffer : loop.stacked)
      region.take(sliceOf(caller.buffers.viewOf(buffer), trip));
    Status done = region.run(loop.body);
    carry(made);
    return done;
  }

  /// Passes these buffers to the next trip, but for what trips update.
  void carry(const std::vector<int> &made) {
    for (size_t i = 0; i < made.size(); ++i)
      carried[loop.turning[i]] = caller.buffers.viewOf(made[i]);
  }

  /// An endless loop must not keep the host from its signals.
  Status poll() {
    if (!caller.plan.host || trace::now() - asked < pollPeriod)
      return {};
    Status answer = caller.plan.host->poll();
    asked = trace::now();
    return answer;
  }

  void settle() const {
    for (size_t i = 0; i < loop.results.size(); ++i) {
      const TensorView &last = carried[loop.turning[i]];
      TensorView result = caller.buffers.viewOf(loop.results[i]);
      if (result.data != last.data)
        caller.plan.device->copy(last, result);
    }
  }

  const RegionCaller &caller;
  const LoopPlan &loop;
  RegionRun region;
  std::vector<TensorView> carried; ///< what the next trip gets
  int64_t asked = trace::now();
};

} // namespace

Status runLoop(const RegionCaller &caller, int number) {
  return LoopRun(caller, caller.commands.loops[number]).run();
}

} // namespace anabranch::runtime
