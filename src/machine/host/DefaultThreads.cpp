//===- DefaultThreads.cpp - how many workers a call has -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/host/DefaultThreads.h"

#include "machine/host/AvailableCpus.h"
#include "machine/host/ReadText.h"
#include "process/Fork.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <thread>

namespace anabranch::machine {

namespace {

constexpr int threadLimit = 256;
constexpr int64_t betweenLooks = 2'000'000'000; // nanoseconds

int clamp(int64_t threads) {
  return static_cast<int>(std::clamp<int64_t>(threads, 1, threadLimit));
}

int64_t clockOf(clockid_t clock) {
  timespec time;
  ::clock_gettime(clock, &time);
  return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

/// The coarse clock: accurate to some milliseconds, and read without a system
/// call.
int64_t coarseNow() { return clockOf(CLOCK_MONOTONIC_COARSE); }

} // namespace

bool isUsersChoice(int framework, const ThreadFacts &facts) {
  return framework > 0 && framework < facts.cpus && framework != facts.cores;
}

ThreadChoice chooseThreads(const ThreadFacts &facts) {
  if (facts.call > 0)
    return {clamp(facts.call), ThreadRule::Call};
  if (facts.variable > 0)
    return {clamp(facts.variable), ThreadRule::Variable};
  // A framework takes its first value from OMP_NUM_THREADS, so an equal value
  // is no choice.
  if (facts.framework != facts.openMp && isUsersChoice(facts.framework, facts))
    return {clamp(facts.framework), ThreadRule::Framework};
  if (facts.openMp > 0)
    return {clamp(facts.openMp), ThreadRule::OpenMp};
  if (facts.quota > 0 && facts.quota < facts.cores)
    return {clamp(static_cast<int64_t>(facts.quota)), ThreadRule::Quota};
  return {clamp(facts.cores), ThreadRule::Cores};
}

int threadsIn(const char *text) {
  std::optional<int64_t> number = parseNumber(text ? text : "");
  return number && *number > 0 ? clamp(*number) : 0;
}

int openMpThreadsIn(const char *text) {
  std::string list = text ? text : "";
  return threadsIn(list.substr(0, list.find(',')).c_str());
}

DefaultThreads &DefaultThreads::get() {
  // Calls ask each time, and only the first one needs the section.
  static std::atomic<DefaultThreads *> known{nullptr};
  if (DefaultThreads *instance = known.load(std::memory_order_acquire))
    return *instance;
  NoFork section;
  // Never destroyed, because workers ask until the process ends.
  static auto *instance = new DefaultThreads;
  known.store(instance, std::memory_order_release);
  return *instance;
}

DefaultThreads::DefaultThreads(std::string root) : root(root), groups(root) {
  look();
}

int DefaultThreads::threads() {
  lookIfDue();
  return chooseThreads(facts()).threads;
}

int DefaultThreads::threadsOfCall() {
  lookIfDue();
  ThreadChoice choice = chooseThreads(facts());
  if (choice.rule != ThreadRule::Quota || !budget.isOpen())
    return choice.threads;
  // The process's CPU time costs a system call, so short calls share one.
  if (int64_t now = coarseNow();
      budgetRead.exchange(now, std::memory_order_relaxed) != now)
    hasRoom.store(budget.hasRoom(clockOf(CLOCK_MONOTONIC),
                                 clockOf(CLOCK_PROCESS_CPUTIME_ID)),
                  std::memory_order_relaxed);
  return choice.threads + hasRoom.load(std::memory_order_relaxed);
}

int DefaultThreads::spinLimit() {
  lookIfDue();
  return spinRoom.limit();
}

static int withinQuota(int count, double quota) {
  return quota > 0 && quota < count ? static_cast<int>(std::ceil(quota))
                                    : count;
}

int DefaultThreads::usableCores() const {
  const ThreadFacts &facts = *machine.load(std::memory_order_acquire);
  return withinQuota(facts.cores, facts.quota);
}

int DefaultThreads::usableCpus() const {
  const ThreadFacts &facts = *machine.load(std::memory_order_acquire);
  return withinQuota(facts.cpus, facts.quota);
}

ThreadFacts DefaultThreads::facts() const {
  ThreadFacts facts = *machine.load(std::memory_order_acquire);
  facts.call = call.load(std::memory_order_relaxed);
  if (int (*count)() = framework.load(std::memory_order_relaxed))
    facts.framework = count();
  return facts;
}

void DefaultThreads::lookIfDue() {
  int64_t now = coarseNow(), due = nextLook.load(std::memory_order_relaxed);
  if (now >= due && nextLook.compare_exchange_strong(due, now + betweenLooks,
                                                     std::memory_order_relaxed))
    look();
}

void DefaultThreads::look() {
  NoFork section;
  std::unique_lock<std::mutex> lock(looking, std::try_to_lock);
  if (!lock)
    return;
  const ThreadFacts *last = machine.load(std::memory_order_relaxed);
  ThreadFacts found = last ? *last : ThreadFacts();
  if (!last) {
    // These variables are read once: a process's environment does not change
    // from outside.
    found.variable = threadsIn(std::getenv("ANABRANCH_NUM_THREADS"));
    found.openMp = openMpThreadsIn(std::getenv("OMP_NUM_THREADS"));
  }
  if (std::vector<int> now = affinityOfProcess(); !last || now != cpus) {
    cpus = std::move(now);
    auto known = static_cast<int>(cpus.size()),
         guess = static_cast<int>(std::thread::hardware_concurrency());
    found.cpus = std::max(known ? known : guess, 1);
    found.cores =
        known ? static_cast<int>(coresOf(cpus, root).size()) : found.cpus;
  }
  groups.follow();
  std::optional<CpuQuota> quota = groups.cpuQuota();
  found.quota = quota ? quota->cpus : 0;
  int64_t throttled = quota ? groups.throttledPeriods() : 0;
  spinRoom.look(found.quota, throttled);
  budget.look(found.quota, throttled);
  nextLook.store(coarseNow() + betweenLooks, std::memory_order_relaxed);
  publish(found);
}

void DefaultThreads::publish(const ThreadFacts &found) {
  const ThreadFacts *last = machine.load(std::memory_order_relaxed);
  if (last && last->cpus == found.cpus && last->cores == found.cores &&
      last->quota == found.quota)
    return;
  if (last && chooseThreads(found).threads < chooseThreads(*last).threads)
    shrunk.store(true, std::memory_order_relaxed);
  all.push_back(std::make_unique<const ThreadFacts>(found));
  machine.store(all.back().get(), std::memory_order_release);
}

} // namespace anabranch::machine
