//===- DefaultThreads.h - how many workers a call has -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_MACHINE_HOST_DEFAULTTHREADS_H
#define ANABRANCH_MACHINE_HOST_DEFAULTTHREADS_H

#include "machine/host/ControlGroups.h"
#include "machine/host/QuotaBudget.h"
#include "machine/host/SpinRoom.h"

#include <memory>
#include <mutex>

namespace anabranch::machine {

/// The facts that decide the number of workers. Zero: not set.
struct ThreadFacts {
  int cpus = 1;      ///< in the affinity mask
  int cores = 1;     ///< of these CPUs
  double quota = 0;  ///< CPUs that the container may use
  int call = 0;      ///< `setDefaultThreads`
  int variable = 0;  ///< ANABRANCH_NUM_THREADS
  int framework = 0; ///< torch.get_num_threads()
  int openMp = 0;    ///< OMP_NUM_THREADS
};

/// The rules, by descending precedence.
enum class ThreadRule : uint8_t {
  Call,
  Variable,
  Framework,
  OpenMp,
  Quota, ///< fewer whole CPUs than cores
  Cores,
};

struct ThreadChoice {
  int threads;
  ThreadRule rule;
};

ThreadChoice chooseThreads(const ThreadFacts &facts);

/// Whether the framework's number is a user's choice. A framework starts with
/// one thread for each CPU or core, so only another, smaller number is a
/// choice.
bool isUsersChoice(int framework, const ThreadFacts &facts);

/// The number in `text` if it is positive; 0 for null and for any other text.
int threadsIn(const char *text);
/// The first number of a list such as "4,2". Further ones are for nested
/// regions.
int openMpThreadsIn(const char *text);

/// The number of workers of a call whose caller sets none, and how many may
/// spin. A container may be resized, so the machine is looked at again, at most
/// every two seconds and only while there are calls. Any thread.
class DefaultThreads {
public:
  static DefaultThreads &get();
  /// `root` is put before all paths: a test gives a folder with a tree of its
  /// own.
  explicit DefaultThreads(std::string root = "");

  /// The number of workers. Looks at the machine if the last look is too old.
  int threads();
  /// The number of workers of a call that begins now: `threads`, or one more
  /// while the quota has time left.
  int threadsOfCall();
  /// How many threads may spin at once. Looks at the machine if the last look
  /// is too old.
  int spinLimit();

  /// The cores, and the CPUs, that all calls of the process together may use:
  /// those of its mask, as far as the quota pays for them.
  int usableCores() const;
  int usableCpus() const;

  void setCall(int threads) { call.store(threads, std::memory_order_relaxed); }
  /// Sets the function that returns the framework's number of threads. Each
  /// call asks it. Null: none.
  void setFramework(int (*count)()) {
    framework.store(count, std::memory_order_relaxed);
  }
  ThreadFacts facts() const;
  /// True once after the machine has allowed fewer threads than before. Then
  /// there may be workers that no call needs.
  bool hasShrunk() {
    return shrunk.load(std::memory_order_relaxed) &&
           shrunk.exchange(false, std::memory_order_relaxed);
  }

  /// Looks at the machine, unless another thread does so.
  void look();

private:
  void lookIfDue();
  void publish(const ThreadFacts &found);

  const std::string root;
  std::atomic<int> call{0};
  std::atomic<int (*)()> framework{nullptr};
  /// The result of the last look. All results are kept, since a call may hold
  /// an old one.
  std::atomic<const ThreadFacts *> machine{nullptr};
  std::atomic<int64_t> nextLook{0}; ///< nanoseconds of the coarse clock
  std::atomic<bool> shrunk{false};
  SpinRoom spinRoom;
  QuotaBudget budget;
  std::atomic<int64_t> budgetRead{0}; ///< the coarse clock, at the last time
  std::atomic<bool> hasRoom{false};   ///< what the budget said then

  /// Guards the members below. A thread that finds it taken does not look: one
  /// look is enough.
  std::mutex looking;
  ControlGroups groups;
  std::vector<int> cpus;
  std::vector<std::unique_ptr<const ThreadFacts>> all;
};

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_HOST_DEFAULTTHREADS_H
