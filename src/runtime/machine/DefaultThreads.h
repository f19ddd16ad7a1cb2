//===- DefaultThreads.h - how many workers a call has -----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_MACHINE_DEFAULTTHREADS_H
#define ANABRANCH_RUNTIME_MACHINE_DEFAULTTHREADS_H

#include "runtime/machine/ControlGroups.h"
#include "runtime/machine/SpinRoom.h"

#include <memory>
#include <mutex>

namespace anabranch::runtime {

/// What the number of workers is chosen by. 0: nobody says.
struct ThreadFacts {
  int cpus = 1;      ///< in the affinity mask
  int cores = 1;     ///< of these CPUs
  double quota = 0;  ///< CPUs that the container may use
  int call = 0;      ///< `setDefaultThreads`
  int variable = 0;  ///< ANABRANCH_NUM_THREADS
  int framework = 0; ///< torch.get_num_threads()
  int openMp = 0;    ///< OMP_NUM_THREADS
};

/// Each rule goes before those below it.
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

/// Whether the user gave the framework its number of threads. It starts with
/// one for each CPU or core, so only a smaller number is somebody's choice.
bool isUsersChoice(int framework, const ThreadFacts &facts);

/// A positive number; 0 for null and for any other text.
int threadsIn(const char *text);
/// The first number of a list such as "4,2": the others are for nested regions.
int openMpThreadsIn(const char *text);

/// The number of workers of a call that was given none, and whether they may
/// spin. A container may be resized while it runs, so the machine is looked at
/// again, at most every two seconds and only while there are calls. Any thread.
class DefaultThreads {
public:
  static DefaultThreads &get();
  /// `root` stands before all paths: a test gives a folder with a tree of its
  /// own.
  explicit DefaultThreads(std::string root = "");

  /// Looks at the machine if the last look is too old.
  int threads();
  /// Threads that may spin at once. Looks likewise.
  int spinLimit();

  void setCall(int threads) { call.store(threads, std::memory_order_relaxed); }
  /// The framework's number of threads, asked at each call; null: none.
  void setFramework(int (*count)()) {
    framework.store(count, std::memory_order_relaxed);
  }
  ThreadFacts facts() const;
  /// True once after the machine gave fewer threads than before: there may be
  /// workers that no call needs.
  bool hasShrunk() {
    return shrunk.load(std::memory_order_relaxed) &&
           shrunk.exchange(false, std::memory_order_relaxed);
  }

  /// Looks at the machine now, unless another thread is doing so.
  void look();

private:
  void lookIfDue();
  void publish(const ThreadFacts &found);

  const std::string root;
  std::atomic<int> call{0};
  std::atomic<int (*)()> framework{nullptr};
  /// What the last look found. A call may hold an old one: all are kept.
  std::atomic<const ThreadFacts *> machine{nullptr};
  std::atomic<int64_t> nextLook{0}; ///< nanoseconds of the coarse clock
  std::atomic<bool> shrunk{false};
  SpinRoom spinRoom;

  /// Guards what is below. Only tried, never waited for: in the child of a fork
  /// its owner may not exist.
  std::mutex looking;
  ControlGroups groups;
  std::vector<int> cpus;
  std::vector<std::unique_ptr<const ThreadFacts>> all;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_MACHINE_DEFAULTTHREADS_H
