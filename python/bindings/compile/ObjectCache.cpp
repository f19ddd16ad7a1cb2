//===- ObjectCache.cpp - kernels that were compiled before ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "compile/ObjectCache.h"

#include "anabranch/Cache.h"

#include <fstream>
#include <iterator>

using namespace anabranch;
using namespace anabranch::python;

namespace {

constexpr char fileName[] = "kernel.o";
constexpr char indexName[] = "entry.json";

/// A reader does not wait for a process that writes the entry just now.
bool isLocked(CacheEntry &entry, bool exclusive) {
  Expected<bool> held = entry.lock(exclusive, 0);
  return held && *held;
}

std::string bytesIn(const std::string &folder, const std::string &trust) {
  CacheEntry entry(folder, indexName, trust);
  if (!isLocked(entry, false))
    return "";
  Expected<std::optional<std::string>> text = entry.read();
  if (!text || !*text)
    return "";
  std::ifstream file(folder + "/" + fileName, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace

ObjectCache::ObjectCache(std::string folder, std::string identity,
                         std::string trust)
    : folder(std::move(folder)), identity(std::move(identity)),
      trust(std::move(trust)) {
  store.identity = this->identity.c_str();
  store.user_data = this;
  store.find = [](const char *key, void (*take)(const void *, size_t, void *),
                  void *taker, void *self) {
    const auto *cache = static_cast<const ObjectCache *>(self);
    std::string bytes = bytesIn(cache->placeOf(key), cache->trust);
    if (!bytes.empty())
      take(bytes.data(), bytes.size(), taker);
  };
  store.keep = [](const char *key, const void *bytes, size_t size, void *self) {
    const auto *cache = static_cast<const ObjectCache *>(self);
    CacheEntry entry(cache->placeOf(key), indexName, cache->trust);
    if (!isLocked(entry, true))
      return;
    CacheFile file;
    file.name = fileName;
    file.bytes.assign(static_cast<const char *>(bytes), size);
    // The package's own entry says where nothing can be written.
    (void)entry.publish({file}, "{}");
  };
}

std::string ObjectCache::placeOf(const std::string &key) const {
  return folder + "/" + key.substr(0, 2) + "/" + key;
}
