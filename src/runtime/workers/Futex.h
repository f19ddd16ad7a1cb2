//===- Futex.h - sleep until a number changes -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_WORKERS_FUTEX_H
#define ANABRANCH_RUNTIME_WORKERS_FUTEX_H

#include <atomic>
#include <chrono>
#include <cstdint>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace anabranch::runtime {

/// How long a worker of a call spins while others finish what it waits for.
/// Then it sleeps: an interrupted worker may need its core.
constexpr std::chrono::microseconds spinBeforeSleep(30);

/// Sleeps until `word` differs from `expected` or another thread wakes this
/// one. It may also return for no reason.
inline void futexWait(std::atomic<uint32_t> &word, uint32_t expected) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAIT_PRIVATE,
            expected, nullptr, nullptr, 0);
}

inline void futexWake(std::atomic<uint32_t> &word, int count) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAKE_PRIVATE,
            count, nullptr, nullptr, 0);
}

/// Tells the CPU that this is a spin loop.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  // A barrier takes about as long as the pause of x86; `yield` takes no time.
  __asm__ volatile("isb" ::: "memory");
#endif
}

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_WORKERS_FUTEX_H
