//===- ModeTuner.cpp - which way to run a program is quickest -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/execute/ModeTuner.h"

#include <algorithm>

namespace anabranch::runtime {

ModeTuner::ModeTuner(std::vector<ExecutionMode> modes) {
  for (ExecutionMode mode : modes)
    candidates.push_back({mode});
  reset(workers);
}

void ModeTuner::reset(int threads) {
  workers = threads;
  for (Candidate &candidate : candidates)
    candidate = {candidate.mode};
  best = 0;
  wasSlower = false;
  beginRound(firstRest);
}

void ModeTuner::beginRound(int length) {
  trying = -1;
  count = 0;
  resting = length;
  round = length + window;
}

bool ModeTuner::wantsTime() {
  if (candidates.size() < 2)
    return false;
  if (resting == 0)
    return true;
  --resting;
  return false;
}

void ModeTuner::record(int64_t time) {
  // The first call of a trial is not counted: the window's last one overwrites
  // it.
  times[count++ % window] = time;
  if (trying < 0 ? count < window : !trialIsOver())
    return;
  int next = -1, before = best;
  if (trying < 0) {
    recordWindow();
    chooseBest();
    next = nextTrial();
  } else {
    recordTrial();
    chooseBest();
  }
  beginRound(next >= 0 ? 0 : isUnsure() || best != before ? firstRest : rest);
  trying = next;
}

/// A window of the best mode is full.
void ModeTuner::recordWindow() {
  Candidate &candidate = candidates[best];
  Machine machine = machineOf(candidate);
  bool hasChanged =
      machine == Machine::Quicker || (machine == Machine::Slower && wasSlower);
  wasSlower = machine == Machine::Slower && !hasChanged;
  if (hasChanged)
    candidate.usual = median();
  else
    candidate.update(median());
  for (Candidate &each : candidates) {
    each.wait -= round;
    each.isStale |= hasChanged;
  }
  candidate.isStale = false;
}

/// The trial of a mode is over, perhaps early.
void ModeTuner::recordTrial() {
  Candidate &candidate = candidates[trying];
  bool isWhole = count > window;
  double time = isWhole ? median() : timeOfShortTrial();
  if (candidate.isStale ||
      (isWhole && machineOf(candidate) == Machine::Quicker))
    candidate.usual = time;
  else
    candidate.update(time);
  candidate.isStale = false;
  candidate.wait = std::max(candidate.wait, 0.0) + waitAfterTrial(candidate);
}

/// The second slowest of the counted calls, or the only call.
double ModeTuner::timeOfShortTrial() const {
  std::array<int64_t, window> sorted = times;
  if (count > 1)
    std::sort(sorted.begin() + 1, sorted.begin() + count);
  return static_cast<double>(
      sorted[static_cast<size_t>(std::max(count - 2, 0))]);
}

/// Whether the trial has all its calls, or is clearly slower.
bool ModeTuner::trialIsOver() const {
  double usual = candidates[best].usual;
  if (count == 1)
    return isLong() && static_cast<double>(times[0]) > hopeless * usual;
  auto isSlow = [&](int64_t time) {
    return static_cast<double>(time) > slower * usual;
  };
  return count > window ||
         std::count_if(times.begin() + 1, times.begin() + count, isSlow) > 1;
}

/// The state of the machine by a full window of this mode. One of its calls may
/// be an exception.
ModeTuner::Machine ModeTuner::machineOf(const Candidate &candidate) const {
  if (candidate.usual == 0)
    return Machine::AsUsual;
  if (timeOf(1) > otherMachine * candidate.usual)
    return Machine::Slower;
  return timeOf(window - 2) * otherMachine < candidate.usual ? Machine::Quicker
                                                             : Machine::AsUsual;
}

void ModeTuner::Candidate::update(double time) {
  constexpr double rise = 0.3, fall = 0.7, mostRise = 1.5;
  if (usual == 0)
    usual = time;
  else if (time < usual)
    usual += fall * (time - usual);
  else
    usual += rise * (std::min(time, mostRise * usual) - usual);
}

/// A mode that is measured anew soon does not become the best before.
void ModeTuner::chooseBest() {
  int quickest = best;
  for (int i = 0; i < static_cast<int>(candidates.size()); ++i)
    if (candidates[i].usual > 0 && !isDueEarly(candidates[i]) &&
        candidates[i].usual < candidates[quickest].usual)
      quickest = i;
  if (candidates[quickest].usual < worthChanging * candidates[best].usual) {
    best = quickest;
    wasSlower = false;
  }
}

/// The calls until the next trial, so that this one cost `trialCost` of them.
/// Each call of a trial loses the time by which the mode is slower.
double ModeTuner::waitAfterTrial(const Candidate &candidate) const {
  double usual = candidates[best].usual, loss = candidate.usual / usual - 1;
  if (loss <= 0)
    return 0;
  bool isHopeless = isLong() && candidate.usual > hopeless * usual;
  return std::clamp(count * loss / trialCost,
                    isHopeless ? waitAfterHopeless : 0, longestWait);
}

bool ModeTuner::mayBeTried(const Candidate &candidate) const {
  double usual = candidates[best].usual;
  // Alone, the caller needs at most the time of all workers together.
  double atWorst = candidate.usual > 0 ? candidate.usual : usual * workers;
  return candidate.mode != ExecutionMode::Serial || !isLong() ||
         workers <= fewWorkers || atWorst <= longestSerial;
}

bool ModeTuner::isDueEarly(const Candidate &candidate) const {
  return candidate.isStale && candidate.wait <= longestWait &&
         mayBeTried(candidate);
}

/// The candidate that has waited longest of those that are due; -1 if there is
/// none.
int ModeTuner::nextTrial() const {
  int next = -1;
  for (int i = 0; i < static_cast<int>(candidates.size()); ++i) {
    const Candidate &candidate = candidates[i];
    bool isDue =
        (candidate.wait <= 0 && mayBeTried(candidate)) || isDueEarly(candidate);
    if (i != best && isDue &&
        (next < 0 || candidate.wait < candidates[next].wait))
      next = i;
  }
  return next;
}

/// Whether another window should come soon.
bool ModeTuner::isUnsure() const {
  return wasSlower ||
         std::any_of(candidates.begin(), candidates.end(),
                     [&](const Candidate &each) { return isDueEarly(each); });
}

/// The time of the window that has `rank` quicker ones.
double ModeTuner::timeOf(int rank) const {
  std::array<int64_t, window> sorted = times;
  std::nth_element(sorted.begin(), sorted.begin() + rank, sorted.end());
  return static_cast<double>(sorted[static_cast<size_t>(rank)]);
}

} // namespace anabranch::runtime
