//===- Store.cpp - all entries below one root -----------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "cache/Store.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

namespace anabranch::cache {

namespace {

/// The names in a folder, "." and ".." left out.
std::vector<std::string> namesIn(const std::string &path) {
  std::vector<std::string> names;
  if (DIR *folder = ::opendir(path.c_str())) {
    while (const dirent *entry = ::readdir(folder))
      if (std::string name = entry->d_name; name != "." && name != "..")
        names.push_back(std::move(name));
    ::closedir(folder);
  }
  return names;
}

bool isFolder(const std::string &path) {
  struct stat info;
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

/// Calls `visit(kind, folder)` for each folder of entries.
template <typename Visit>
void forEachShelf(const std::string &root, Visit visit) {
  for (const std::string &kind : namesIn(root))
    for (const std::string &shelf : namesIn(root + "/" + kind))
      if (std::string folder = root + "/" + kind + "/" + shelf;
          isFolder(folder))
        visit(kind, folder);
}

/// The bytes of all files below a path.
uint64_t bytesBelow(const std::string &path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0)
    return 0;
  uint64_t bytes = static_cast<uint64_t>(info.st_size);
  if (S_ISDIR(info.st_mode))
    for (const std::string &name : namesIn(path))
      bytes += bytesBelow(path + "/" + name);
  return bytes;
}

CacheEntryInfo describe(const std::string &kind, const std::string &key,
                        const std::string &folder) {
  CacheEntryInfo entry{kind, key, folder};
  for (const std::string &name : namesIn(folder)) {
    std::string path = folder + "/" + name;
    entry.bytes += bytesBelow(path);
    struct stat info;
    if (name == Store::index && ::lstat(path.c_str(), &info) == 0)
      entry.lastUse = info.st_mtime;
  }
  return entry;
}

/// Takes KEY out of ".tmp-KEY-PID-..." or ".KEY.lock"; empty for any other
/// name.
std::string keyOfLitter(const std::string &name) {
  std::string_view rest = name;
  if (rest.rfind(".tmp-", 0) == 0) {
    rest.remove_prefix(5);
    return std::string(rest.substr(0, rest.find('-')));
  }
  constexpr std::string_view suffix = ".lock";
  if (rest.size() > suffix.size() + 1 && rest[0] == '.' &&
      rest.substr(rest.size() - suffix.size()) == suffix)
    return std::string(rest.substr(1, rest.size() - suffix.size() - 1));
  return "";
}

uint64_t sweep(const std::string &shelf) {
  uint64_t swept = 0;
  for (const std::string &name : namesIn(shelf)) {
    std::string key = keyOfLitter(name);
    if (key.empty())
      continue;
    bool isLock = name[1] != 't' || name.rfind(".tmp-", 0) != 0;
    if (isLock && isFolder(shelf + "/" + key))
      continue;
    Slot slot(shelf + "/" + key, Store::index);
    Expected<Lock> lock = slot.lock(Lock::Kind::Exclusive, 0);
    if (!lock || !lock->exclusive())
      continue;
    slot.removeLitter(*lock);
    if (!isFolder(slot.folder()))
      ::unlink((shelf + "/." + key + ".lock").c_str());
    ++swept;
  }
  return swept;
}

} // namespace

Slot Store::slot(const std::string &kind, const std::string &key) const {
  std::string folder = root;
  folder.append("/").append(kind).append("/").append(key, 0, 2);
  folder.append("/").append(key);
  return {folder, index};
}

std::vector<CacheEntryInfo> Store::list() const {
  std::vector<CacheEntryInfo> entries;
  forEachShelf(root, [&](const std::string &kind, const std::string &shelf) {
    for (const std::string &key : namesIn(shelf))
      if (key[0] != '.' && isFolder(shelf + "/" + key))
        entries.push_back(describe(kind, key, shelf + "/" + key));
  });
  std::sort(entries.begin(), entries.end(),
            [](const CacheEntryInfo &a, const CacheEntryInfo &b) {
              return std::tie(a.lastUse, a.key) < std::tie(b.lastUse, b.key);
            });
  return entries;
}

CachePruned Store::prune(uint64_t limit) const {
  CachePruned pruned;
  std::vector<CacheEntryInfo> entries = list();
  for (const CacheEntryInfo &entry : entries)
    pruned.kept += entry.bytes;
  for (const CacheEntryInfo &entry : entries) {
    if (pruned.kept <= limit)
      break;
    Slot slot(entry.folder, index);
    Expected<Lock> lock = slot.lock(Lock::Kind::Exclusive, 0);
    if (!lock || !lock->exclusive() || !slot.remove(*lock).ok())
      continue;
    pruned.kept -= entry.bytes;
    pruned.bytes += entry.bytes;
    ++pruned.entries;
  }
  forEachShelf(root, [&](const std::string &, const std::string &shelf) {
    pruned.litter += sweep(shelf);
  });
  return pruned;
}

Expected<uint64_t> defaultLimit() {
  const char *text = std::getenv("ANABRANCH_CACHE_BYTES");
  if (!text || !*text)
    return uint64_t(10) << 30;
  std::string digits = text;
  bool number = digits.size() <= 18 &&
                std::all_of(digits.begin(), digits.end(),
                            [](unsigned char c) { return std::isdigit(c); });
  if (!number)
    return Status(StatusCode::InvalidArgument,
                  "ANABRANCH_CACHE_BYTES must be a number of bytes: " + digits);
  return std::stoull(digits);
}

} // namespace anabranch::cache
