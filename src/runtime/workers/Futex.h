//===- Futex.h - sleep until a number changes -------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_WORKERS_FUTEX_H
#define ANABRANCH_RUNTIME_WORKERS_FUTEX_H

#include <atomic>
#include <chrono>
#include <cstdint>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace anabranch::runtime {

/// How long a worker of a call keeps its core while others finish what it waits
/// for. After that one that was interrupted may need it.
constexpr std::chrono::microseconds spinBeforeSleep(30);

/// Returns when `word` no longer holds `expected`, when woken, or for no
/// reason.
inline void futexWait(std::atomic<uint32_t> &word, uint32_t expected) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAIT_PRIVATE,
            expected, nullptr, nullptr, 0);
}

inline void futexWake(std::atomic<uint32_t> &word, int count) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAKE_PRIVATE,
            count, nullptr, nullptr, 0);
}

/// A hint to the CPU that this is a spin loop.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_WORKERS_FUTEX_H
