//===- Pinning.cpp - which CPUs workers run on ----------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/workers/Pinning.h"

#include "machine/host/AvailableCpus.h"
#include "machine/host/MemoryNodes.h"
#include "process/Fork.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <mutex>
#include <unistd.h>

namespace anabranch::runtime {

/// The CPUs of each worker, in turn. Empty: each worker keeps the CPUs that its
/// thread inherited.
struct PinningChoice {
  std::vector<cpu_set_t> places;
};

namespace {

std::atomic<const PinningChoice *> current{nullptr};

/// All choices are kept, because a worker may look at an old one at any time.
void choose(PinningChoice choice) {
  NoFork section;
  static std::mutex mutex;
  static auto *all = new std::vector<std::unique_ptr<PinningChoice>>;
  std::lock_guard<std::mutex> lock(mutex);
  all->push_back(std::make_unique<PinningChoice>(std::move(choice)));
  current.store(all->back().get(), std::memory_order_release);
}

bool allowedCpus(cpu_set_t &set) {
  return ::sched_getaffinity(::getpid(), sizeof(set), &set) == 0;
}

std::string listOf(const cpu_set_t &set) {
  std::string text;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set))
      text += (text.empty() ? "" : ",") + std::to_string(cpu);
  return text;
}

/// One set of CPUs for each core, neighbours of the first one first: a call of
/// few workers then stays in one memory node. The first core comes last, since
/// the caller needs one too.
std::vector<cpu_set_t> placesOfCores(const cpu_set_t &allowed) {
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed))
      cpus.push_back(cpu);
  std::vector<cpu_set_t> places;
  for (const std::vector<int> &core :
       machine::neighboursFirst(machine::coresOf(cpus))) {
    CPU_ZERO(&places.emplace_back());
    for (int cpu : core)
      CPU_SET(cpu, &places.back());
  }
  if (!places.empty())
    std::rotate(places.begin(), places.begin() + 1, places.end());
  return places;
}

/// Reads "7" or "2-5" at `at`, and moves `at` after it. False if there is no
/// such range.
bool readRange(const std::string &text, size_t &at, int &first, int &last) {
  auto number = [&](int &value) {
    size_t begin = at;
    for (value = 0; at < text.size() && std::isdigit(text[at]); ++at)
      value = std::min(value * 10 + (text[at] - '0'), CPU_SETSIZE);
    return at > begin;
  };
  if (!number(first))
    return false;
  last = first;
  if (at == text.size() || text[at] != '-')
    return true;
  ++at;
  return number(last) && first <= last;
}

Status refuse(const std::string &where, const std::string &why) {
  return Status(StatusCode::InvalidArgument,
                "cannot pin workers to '" + where + "': " + why);
}

/// Reads a list of CPUs: one set for each.
Status readList(const std::string &where, const cpu_set_t &allowed,
                std::vector<cpu_set_t> &places) {
  for (size_t at = 0;; ++at) {
    int first, last;
    if (!readRange(where, at, first, last) ||
        (at < where.size() && where[at] != ','))
      return refuse(where,
                    "it must be off, cores or a list of CPUs such as 0,2-3");
    for (int cpu = first; cpu <= last; ++cpu) {
      if (cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &allowed))
        return refuse(where, "this process may use the CPUs " +
                                 listOf(allowed) + " only");
      places.emplace_back();
      CPU_ZERO(&places.back());
      CPU_SET(cpu, &places.back());
    }
    if (at == where.size())
      return {};
  }
}

} // namespace

Status pinFromEnvironment() {
  if (current.load(std::memory_order_acquire))
    return {};
  const char *where = std::getenv("ANABRANCH_PIN");
  if (!where || !*where)
    return {};
  Status s = pinWorkers(where);
  return s.ok() ? std::move(s)
                : Status(s.code(), "ANABRANCH_PIN: " + s.message());
}

bool areWorkersPinned() {
  const PinningChoice *choice = current.load(std::memory_order_acquire);
  return choice && !choice->places.empty();
}

cpu_set_t cpusOfThisThread() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0)
    CPU_ZERO(&set);
  return set;
}

PinnedThread::PinnedThread(int worker, const cpu_set_t &inherited)
    : worker(worker), mayMove(CPU_COUNT(&inherited) > 1), inherited(inherited) {
}

void PinnedThread::follow() {
  const PinningChoice *choice = current.load(std::memory_order_acquire);
  if (choice == seen)
    return;
  seen = choice;
  const auto &places = choice->places;
  const cpu_set_t &set =
      places.empty() ? inherited
                     : places[static_cast<size_t>(worker) % places.size()];
  mayMove = places.empty() && CPU_COUNT(&inherited) > 1;
  // This call fails if the process has lost the CPU since. The worker then
  // stays where it is.
  (void)::sched_setaffinity(0, sizeof(set), &set);
}

bool PinnedThread::avoid(int cpu) {
  // Moving a thread takes as long as some pieces of work, so a worker moves no
  // more often than this.
  constexpr std::chrono::milliseconds rest(1);
  auto now = std::chrono::steady_clock::now();
  if (now - lastMove < rest)
    return false;
  lastMove = now;
  cpu_set_t others = inherited;
  CPU_CLR(static_cast<size_t>(cpu), &others);
  return ::sched_setaffinity(0, sizeof(others), &others) == 0;
}

} // namespace anabranch::runtime

namespace anabranch {

Status pinWorkers(const std::string &where) {
  using namespace runtime;
  PinningChoice choice;
  cpu_set_t allowed;
  if (where != "off" && !allowedCpus(allowed))
    return refuse(where, "the CPUs of this process are not known");
  if (where == "cores")
    choice.places = placesOfCores(allowed);
  else if (where != "off")
    if (Status s = readList(where, allowed, choice.places); !s.ok())
      return s;
  choose(std::move(choice));
  return {};
}

} // namespace anabranch
