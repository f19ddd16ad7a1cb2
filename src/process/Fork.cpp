//===- Fork.cpp - what the child of a fork may rely on --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "process/Fork.h"

#include <pthread.h>
#include <shared_mutex>

namespace anabranch {

namespace {

std::shared_mutex ofFirstProcess;

/// Sections share it, a fork has it alone. glibc's lock lets a thread that has
/// a share take another one even if a fork waits, so sections may be nested.
std::shared_mutex *sections = &ofFirstProcess;
std::atomic<uint32_t> depth{0};

void beforeFork() { sections->lock(); }
void inParent() { sections->unlock(); }
void inChild() {
  // The old lock's owner is a thread of the parent, so no thread can unlock it.
  // The new one has another address, by which ThreadSanitizer knows a lock.
  sections = new std::shared_mutex;
  depth.fetch_add(1, std::memory_order_relaxed);
}

/// Registered when the library is loaded, thus before any thread can be inside
/// a section.
[[maybe_unused]] const int registered =
    ::pthread_atfork(beforeFork, inParent, inChild);

} // namespace

NoFork::NoFork() { sections->lock_shared(); }
NoFork::~NoFork() { sections->unlock_shared(); }

uint32_t forkDepth() { return depth.load(std::memory_order_relaxed); }

} // namespace anabranch
