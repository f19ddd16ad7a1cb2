//===- CallerSignal.cpp - wake the thread that called the program ---------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/execute/CallerSignal.h"

namespace anabranch::runtime {

bool CallerSignal::spin(uint32_t seen) const {
  auto end = std::chrono::steady_clock::now() + spinBeforeSleep;
  do {
    for (int i = 0; i < 32; ++i) {
      if (news.load(std::memory_order_acquire) != seen)
        return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

void CallerSignal::sleep(uint32_t seen) {
  sleeps.store(true, std::memory_order_seq_cst);
  if (news.load(std::memory_order_seq_cst) == seen)
    futexWait(news, seen);
  sleeps.store(false, std::memory_order_relaxed);
}

} // namespace anabranch::runtime
