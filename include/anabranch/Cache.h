//===- Cache.h - packages on disk, shared by processes ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// An entry is a folder of files that appears and vanishes as a whole, and that
// is hashed whenever it is read. Nothing here is needed to run a package.

#ifndef ANABRANCH_CACHE_H
#define ANABRANCH_CACHE_H

#include "anabranch/Status.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace anabranch {

/// One file of an entry to publish: a copy of the file `source`, or `bytes` if
/// `source` is empty.
struct CacheFile {
  std::string name, source, bytes;
};

struct CacheEntryInfo {
  std::string kind, key, folder;
  uint64_t bytes = 0;
  uint64_t added = 0;  ///< of `bytes`, what no entry before it in a list has
  int64_t lastUse = 0; ///< seconds since 1970
};

struct CachePruned {
  uint64_t entries = 0, bytes = 0; ///< removed
  uint64_t litter = 0; ///< removed folders and locks of dead writers
  uint64_t kept = 0;   ///< left in the cache
};

/// One entry and the lock on it. One thread uses it at a time; other slots and
/// other processes that use the same entry wait for the lock.
class ANABRANCH_API CacheEntry {
public:
  /// `index` names the file that lists the others. `trust` is a level, as in
  /// OpenOptions. It says whose entries are read, and who may read the entries
  /// that this process writes.
  CacheEntry(const std::string &folder, const std::string &index,
             const std::string &trust = "");
  ~CacheEntry();
  CacheEntry(const CacheEntry &) = delete;
  CacheEntry &operator=(const CacheEntry &) = delete;

  /// Releases the lock that this object holds, then waits for a new one, at
  /// most `seconds`. Returns whether it holds one. A reader holds none where
  /// the cache cannot be written.
  Expected<bool> lock(bool exclusive, double seconds);
  void unlock();

  /// Hashes every file of the entry, compares the hashes with the index, and
  /// returns the text that was published; nothing where there is no entry.
  /// BadPackage: the entry differs from the published one, or other users may
  /// write to it.
  Expected<std::optional<std::string>> read() const;

  /// Both need the exclusive lock.
  Status publish(const std::vector<CacheFile> &files, const std::string &text);
  Status remove();

private:
  struct State;
  std::unique_ptr<State> state;
};

/// The folder ANABRANCH_CACHE_HOME, else `anabranch` in XDG_CACHE_HOME or in
/// ~/.cache. Empty without a home.
ANABRANCH_API std::string cacheFolder();

/// The limit in bytes: ANABRANCH_CACHE_BYTES, else 10 GiB. InvalidArgument if
/// the variable is no number.
ANABRANCH_API Expected<uint64_t> cacheLimit();

/// The entries `<root>/<kind>/<hh>/<key>/`, least recently used first.
ANABRANCH_API std::vector<CacheEntryInfo> listCache(const std::string &root);

/// Removes what dead writers left, and entries, least recently used first,
/// until at most `limit` bytes are left. An entry that is locked stays.
ANABRANCH_API CachePruned pruneCache(const std::string &root, uint64_t limit);

/// The two functions name what compiled code depends on besides its source:
/// this CPU, and the build of the compiler library in the folder of this
/// library. They do not load the compiler.
ANABRANCH_API std::string cpuIdentity();
ANABRANCH_API std::string compilerIdentity();

/// The hash, in hex, that packages and the cache keep of each file. It detects
/// damage. It does not stop an author who constructs two texts of one hash.
ANABRANCH_API std::string hashBytes(const void *data, size_t size);

} // namespace anabranch

#endif // ANABRANCH_CACHE_H
