//===- Cache.cpp - the public side of the cache ---------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "anabranch/Cache.h"

#include "cache/Identity.h"
#include "cache/Store.h"
#include "machine/limits/CacheFolder.h"
#include "machine/processor/CpuFingerprint.h"
#include "package/files/FileHash.h"

#include <dlfcn.h>

namespace anabranch {

struct CacheEntry::State {
  cache::Slot slot;
  cache::Lock lock;
};

CacheEntry::CacheEntry(const std::string &folder, const std::string &index,
                       const std::string &trust)
    : state(new State{
          cache::Slot(folder, index, trust, cache::contentsOf(folder)),
          cache::Lock()}) {}

CacheEntry::~CacheEntry() = default;

Expected<bool> CacheEntry::lock(bool exclusive, double seconds) {
  using Kind = cache::Lock::Kind;
  unlock();
  Expected<cache::Lock> taken =
      state->slot.lock(exclusive ? Kind::Exclusive : Kind::Shared, seconds);
  if (!taken)
    return taken.takeStatus();
  state->lock = std::move(*taken);
  return state->lock.held();
}

void CacheEntry::unlock() { state->lock = cache::Lock(); }

Expected<std::optional<std::string>> CacheEntry::read() const {
  return state->slot.read();
}

Status CacheEntry::publish(const std::vector<CacheFile> &files,
                           const std::string &text) {
  return state->slot.publish(state->lock, files, text);
}

Status CacheEntry::remove() { return state->slot.remove(state->lock); }

std::string cacheFolder() { return machine::cacheFolder(); }

Expected<uint64_t> cacheLimit() { return cache::defaultLimit(); }

std::vector<CacheEntryInfo> listCache(const std::string &root) {
  return cache::Store(root).list();
}

CachePruned pruneCache(const std::string &root, uint64_t limit) {
  return cache::Store(root).prune(limit);
}

std::string cpuIdentity() { return machine::cpuFingerprint(); }

std::string compilerIdentity() {
  // The compiler library is in the folder of this one, in the wheel and in
  // the build.
  Dl_info self;
  auto *here = reinterpret_cast<void *>(&cacheFolder);
  if (!::dladdr(here, &self) || !self.dli_fname)
    return "";
  std::string path = self.dli_fname;
  size_t slash = path.rfind('/');
  path.resize(slash == std::string::npos ? 0 : slash + 1);
  return cache::buildIdentity(path + "libanabranch_compiler.so");
}

std::string hashBytes(const void *data, size_t size) {
  return package::FileHash::of(data, size);
}

} // namespace anabranch
