//===- Store.cpp - all entries below one root -----------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "cache/Store.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <dirent.h>
#include <filesystem>
#include <map>
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

/// Where a root keeps the files that its entries share.
constexpr const char *shared = "contents";

/// Calls `visit(kind, folder)` for each folder of entries.
template <typename Visit>
void forEachShelf(const std::string &root, Visit visit) {
  for (const std::string &kind : namesIn(root))
    for (const std::string &shelf : namesIn(root + "/" + kind))
      if (std::string folder = root + "/" + kind + "/" + shelf;
          isFolder(folder))
        visit(kind, folder);
}

/// A file or a folder of an entry. A file that entries share has one inode.
struct Holding {
  ino_t inode;
  uint64_t bytes;
};

struct Entry {
  CacheEntryInfo info;
  std::vector<Holding> holdings;
};

/// Adds a path and all below it.
void addHoldings(const std::string &path, std::vector<Holding> &holdings) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0)
    return;
  holdings.push_back({info.st_ino, static_cast<uint64_t>(info.st_size)});
  if (S_ISDIR(info.st_mode))
    for (const std::string &name : namesIn(path))
      addHoldings(path + "/" + name, holdings);
}

Entry describe(const std::string &kind, const std::string &key,
               const std::string &folder) {
  Entry entry{{kind, key, folder}, {}};
  for (const std::string &name : namesIn(folder)) {
    std::string path = folder + "/" + name;
    addHoldings(path, entry.holdings);
    struct stat info;
    if (name == Store::index && ::lstat(path.c_str(), &info) == 0)
      entry.info.lastUse = info.st_mtime;
  }
  return entry;
}

/// Counts the entries that hold a file, since the last of them frees it.
class Holders {
public:
  /// Returns the bytes that the entries before this one do not hold.
  uint64_t add(const Entry &entry) {
    return sum(entry, [&](ino_t inode) { return count[inode]++ == 0; });
  }
  /// Returns the bytes that no other entry holds.
  uint64_t remove(const Entry &entry) {
    return sum(entry, [&](ino_t inode) { return --count[inode] == 0; });
  }

private:
  template <typename Counts>
  static uint64_t sum(const Entry &entry, Counts counts) {
    uint64_t bytes = 0;
    for (const Holding &holding : entry.holdings)
      if (counts(holding.inode))
        bytes += holding.bytes;
    return bytes;
  }

  std::map<ino_t, uint64_t> count;
};

/// Least recently used first.
std::vector<Entry> entriesOf(const std::string &root, Holders &holders) {
  std::vector<Entry> entries;
  forEachShelf(root, [&](const std::string &kind, const std::string &shelf) {
    for (const std::string &key : namesIn(shelf))
      if (key[0] != '.' && isFolder(shelf + "/" + key))
        entries.push_back(describe(kind, key, shelf + "/" + key));
  });
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    return std::tie(a.info.lastUse, a.info.key) <
           std::tie(b.info.lastUse, b.info.key);
  });
  for (Entry &entry : entries) {
    for (const Holding &holding : entry.holdings)
      entry.info.bytes += holding.bytes;
    entry.info.added = holders.add(entry);
  }
  return entries;
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
  return {folder, index, "", root + "/" + shared};
}

std::vector<CacheEntryInfo> Store::list() const {
  Holders holders;
  std::vector<CacheEntryInfo> list;
  for (Entry &entry : entriesOf(root, holders))
    list.push_back(std::move(entry.info));
  return list;
}

CachePruned Store::prune(uint64_t limit) const {
  CachePruned pruned;
  Holders holders;
  std::vector<Entry> entries = entriesOf(root, holders);
  for (const Entry &entry : entries)
    pruned.kept += entry.info.added;
  for (const Entry &entry : entries) {
    if (pruned.kept <= limit)
      break;
    Slot slot(entry.info.folder, index);
    Expected<Lock> lock = slot.lock(Lock::Kind::Exclusive, 0);
    if (!lock || !lock->exclusive() || !slot.remove(*lock).ok())
      continue;
    uint64_t freed = holders.remove(entry);
    pruned.kept -= freed;
    pruned.bytes += freed;
    ++pruned.entries;
  }
  forEachShelf(root, [&](const std::string &, const std::string &shelf) {
    pruned.litter += sweep(shelf);
  });
  Contents::removeUnused(root + "/" + shared);
  return pruned;
}

std::string contentsOf(const std::string &folder) {
  namespace fs = std::filesystem;
  fs::path place = fs::path(folder).lexically_normal();
  if (!place.has_filename())
    place = place.parent_path(); // it ends with a slash
  fs::path shelf = place.parent_path();
  std::string key = place.filename();
  if (key.size() <= 2 || shelf.filename() != key.substr(0, 2))
    return "";
  return shelf.parent_path().parent_path() / shared;
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
