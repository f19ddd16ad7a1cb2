//===- ModeTuner.cpp - which way to run a program is quickest -------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

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
  beginRound(firstRest);
}

void ModeTuner::beginRound(int length) {
  trying = -1;
  count = 0;
  resting = length;
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
  Candidate &candidate = candidates[trying >= 0 ? trying : best];
  auto took = static_cast<double>(time);
  bool stops = trying >= 0 && count == 1 && isHopeless(candidate, took);
  if (count < window + (trying >= 0) && !stops)
    return;
  candidate.update(stops ? took : median());
  int next = -1;
  if (trying < 0) {
    for (Candidate &candidate : candidates)
      ++candidate.rounds;
    next = nextTrial();
  } else {
    candidates[trying].rounds = 0;
  }
  chooseBest();
  beginRound(next < 0 ? rest : 0);
  trying = next;
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

void ModeTuner::chooseBest() {
  int quickest = best;
  for (int i = 0; i < static_cast<int>(candidates.size()); ++i)
    if (candidates[i].usual > 0 &&
        candidates[i].usual < candidates[quickest].usual)
      quickest = i;
  if (candidates[quickest].usual < worthChanging * candidates[best].usual)
    best = quickest;
}

/// Whether one call of this mode took so long that the rest of its trial would
/// be a waste.
bool ModeTuner::isHopeless(const Candidate &candidate, double time) const {
  double usual = candidates[best].usual;
  return candidate.mode == ExecutionMode::Serial && usual > longCall &&
         time > hopeless * usual;
}

/// A trial takes a window and one more call, and each of them loses the time by
/// which the mode is slower. A hopeless mode's trial takes one call.
bool ModeTuner::isDue(const Candidate &candidate) const {
  double usual = candidates[best].usual;
  // Alone, the caller needs at most the time of all workers together.
  double atWorst = candidate.usual > 0 ? candidate.usual : usual * workers;
  if (candidate.mode == ExecutionMode::Serial && usual > longCall &&
      workers > fewWorkers && atWorst > longestSerial)
    return false;
  bool isOne = isHopeless(candidate, candidate.usual);
  double loss = (isOne ? 1 : window + 1) * (candidate.usual - usual),
         round = (rest + window) * usual,
         patience = std::max(loss / round / trialCost,
                             isOne ? patienceAfterHopeless : 0);
  return candidate.rounds >= std::min<double>(patience, mostPatience);
}

/// The candidate that has waited longest of those whose turn it is; -1 if there
/// is none.
int ModeTuner::nextTrial() {
  int next = -1;
  for (int i = 0; i < static_cast<int>(candidates.size()); ++i)
    if (i != best && isDue(candidates[i]) &&
        (next < 0 || candidates[i].rounds > candidates[next].rounds))
      next = i;
  return next;
}

double ModeTuner::median() const {
  std::array<int64_t, window> sorted = times;
  std::nth_element(sorted.begin(), sorted.begin() + window / 2, sorted.end());
  return static_cast<double>(sorted[window / 2]);
}

} // namespace anabranch::runtime
