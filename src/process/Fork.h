//===- Fork.h - what the child of a fork may rely on ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The child of a fork has one thread. Locks and half-made changes of the
// parent's other threads stay as they were at that moment. The runtime knows
// two ways out: a fork waits for the end of short sections (NoFork), and the
// child makes anew what threads hold for long (ForkLocal).

#ifndef ANABRANCH_PROCESS_FORK_H
#define ANABRANCH_PROCESS_FORK_H

#include <atomic>
#include <cstdint>
#include <memory>

namespace anabranch {

/// While a thread has one, fork() waits in all others. So a child finds no lock
/// taken that is only taken inside such sections, and no half of a change. A
/// section is short, waits for nothing but such locks, and calls no code of
/// users: a thread that forked inside one would wait for itself. Sections may
/// be nested.
class NoFork {
public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork &) = delete;
  NoFork &operator=(const NoFork &) = delete;
};

/// The number of forks from the first process of this program to this one.
uint32_t forkDepth();

/// One T in each process, made at the first use. The child of a fork gets a new
/// one and never touches the parent's, whose memory it keeps. Any thread.
template <typename T> class ForkLocal {
public:
  ForkLocal() = default;
  ~ForkLocal() {
    if (find())
      delete current.load(std::memory_order_relaxed);
  }
  ForkLocal(const ForkLocal &) = delete;
  ForkLocal &operator=(const ForkLocal &) = delete;

  /// Null if this process has not used it yet.
  T *find() const {
    Made *made = current.load(std::memory_order_acquire);
    return made && made->depth == forkDepth() ? &made->value : nullptr;
  }

  T &get() {
    if (T *known = find())
      return *known;
    auto made = std::make_unique<Made>();
    Made *before = current.load(std::memory_order_acquire);
    while (!before || before->depth != made->depth)
      if (current.compare_exchange_weak(before, made.get(),
                                        std::memory_order_acq_rel))
        return made.release()->value;
    return before->value;
  }

private:
  struct Made {
    uint32_t depth = forkDepth();
    T value;
  };
  std::atomic<Made *> current{nullptr};
};

} // namespace anabranch

#endif // ANABRANCH_PROCESS_FORK_H
