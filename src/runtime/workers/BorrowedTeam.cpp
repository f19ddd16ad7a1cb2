//===- BorrowedTeam.cpp - the framework's threads help a call -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/workers/BorrowedTeam.h"

#include "machine/host/DefaultThreads.h"
#include "process/Fork.h"
#include "runtime/workers/CallsInFlight.h"
#include "runtime/workers/Pinning.h"
#include "trace/Recorder.h"

#include <cstdlib>
#include <string>

namespace anabranch::runtime {

namespace {

std::atomic<const FrameworkTeam *> frameworkTeam{nullptr};
/// The forks up to the process that set the team. Its child has none of the
/// team's threads.
std::atomic<uint32_t> depthOfTeam{0};
std::atomic<bool> onlyOwn{false};

/// The child of a fork gets a new object: in the parent a call may have the
/// team. Never destroyed, since threads of the team may be on their way out.
ForkLocal<BorrowedTeam> &borrowedTeams = *new ForkLocal<BorrowedTeam>;

} // namespace

/// Why no call with this many threads may use the team; null: it may. A team's
/// idle threads spin for as long as the framework says. Under a quota calls
/// would lose that time, so the quota must have room for all of them.
static const char *whyNot(const FrameworkTeam *team, int threads) {
  if (onlyOwn.load(std::memory_order_relaxed))
    return "ANABRANCH_TEAM says so";
  if (!team)
    return "there is no framework with a team";
  if (depthOfTeam.load(std::memory_order_relaxed) != forkDepth())
    return "the process was forked";
  if (areWorkersPinned())
    return "they are bound to CPUs";
  if (threads > machine::DefaultThreads::get().spinLimit())
    return "the quota has no room for a team that spins";
  if (team->size() != threads)
    return "the framework's team has another number of threads";
  return nullptr;
}

std::string whoHelps(int threads) {
  if (threads < 2)
    return "none: calls have one thread";
  const FrameworkTeam *team = frameworkTeam.load(std::memory_order_acquire);
  if (const char *why = whyNot(team, threads))
    return std::string("the runtime's own: ") + why;
  return std::string("the framework's: ") + team->name;
}

Status teamFromEnvironment() {
  const char *text = std::getenv("ANABRANCH_TEAM");
  if (!text || !*text)
    return {};
  std::string word = text;
  if (word != "own" && word != "framework")
    return Status(StatusCode::InvalidArgument,
                  "ANABRANCH_TEAM must be own or framework, not '" + word +
                      "'");
  onlyOwn.store(word == "own", std::memory_order_relaxed);
  return {};
}

TeamLease::TeamLease(int threads) {
  const FrameworkTeam *team = frameworkTeam.load(std::memory_order_acquire);
  if (threads < 2 || whyNot(team, threads))
    return;
  BorrowedTeam &candidate = borrowedTeams.get();
  std::thread::id owner, self = std::this_thread::get_id();
  isShared = !candidate.owner.compare_exchange_strong(
      owner, self, std::memory_order_acquire, std::memory_order_relaxed);
  if (isShared && owner != self)
    return;
  borrowed = &candidate;
  borrowed->team = team;
  if (borrowed->scratches.size() < static_cast<size_t>(threads))
    borrowed->scratches = std::vector<WorkerScratch>(threads);
}

TeamLease::~TeamLease() {
  if (borrowed && !isShared)
    borrowed->owner.store(std::thread::id(), std::memory_order_release);
}

void BorrowedTeam::open(Job &work) {
  job = &work;
  closed.store(false, std::memory_order_relaxed);
  team->run(
      [](void *self, int number) {
        static_cast<BorrowedTeam *>(self)->enter(number);
      },
      this);
  job = nullptr;
}

/// An exception could not leave the framework's region. If the host has made
/// the team larger since the call began, the other threads leave at once.
void BorrowedTeam::enter(int number) noexcept {
  if (number > job->helpers)
    return;
  if (number > 0)
    return help(number);
  job->lead();
  closed.store(true, std::memory_order_relaxed);
  news.notifyAll();
}

/// A thread that leaves early would spin in the framework's barrier, where
/// nothing calls it back.
void BorrowedTeam::help(int number) {
  trace::nameTrack(team->name, number);
  const CallsInFlight &calls = CallsInFlight::get();
  WorkerScratch &scratch = scratches[static_cast<size_t>(number)];
  for (;;) {
    // The number is read first, so that any later news ends the waiting.
    uint32_t seen = news.latest();
    if (closed.load(std::memory_order_relaxed))
      return;
    if (calls.isCrowded() || !job->work(scratch))
      news.await(number - 1, seen);
  }
}

} // namespace anabranch::runtime

namespace anabranch {

void setFrameworkTeam(const FrameworkTeam *team) {
  runtime::depthOfTeam.store(forkDepth(), std::memory_order_relaxed);
  runtime::frameworkTeam.store(team, std::memory_order_release);
}

} // namespace anabranch
