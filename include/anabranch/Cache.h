//===- Cache.h - packages on disk, shared by processes ----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// An entry is a folder of files that appears and vanishes as a whole, and that
// is hashed whenever it is read. Nothing here is needed to run a package.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CACHE_H
#define ANABRANCH_CACHE_H

#include "anabranch/Status.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace anabranch {

/// A file of an entry that is published: a copy of the file `source`, or
/// `bytes` where there is no source.
struct CacheFile {
  std::string name, source, bytes;
};

struct CacheEntryInfo {
  std::string kind, key, folder;
  uint64_t bytes = 0;
  int64_t lastUse = 0; ///< seconds since 1970
};

struct CachePruned {
  uint64_t entries = 0, bytes = 0; ///< that were removed
  uint64_t litter = 0;             ///< folders and locks of dead writers
  uint64_t kept = 0;               ///< bytes that are left
};

/// One entry and the lock on it. One thread uses it at a time; other slots and
/// other processes that use the same entry wait for the lock.
class ANABRANCH_API CacheEntry {
public:
  /// `index` names the file that lists the others. `trust` says whose entries
  /// are read, as in OpenOptions, and so who may read those that are written.
  CacheEntry(const std::string &folder, const std::string &index,
             const std::string &trust = "");
  ~CacheEntry();
  CacheEntry(const CacheEntry &) = delete;
  CacheEntry &operator=(const CacheEntry &) = delete;

  /// Gives up its lock, then waits for another, at most `seconds`. Returns
  /// whether it has one. Readers need none where nothing can be written.
  Expected<bool> lock(bool exclusive, double seconds);
  void unlock();

  /// The text that was published, after every file was hashed and compared;
  /// nothing where there is no entry. BadPackage says that the entry is not
  /// what was published, or that others may have touched it.
  Expected<std::optional<std::string>> read() const;

  /// Both need the exclusive lock.
  Status publish(const std::vector<CacheFile> &files, const std::string &text);
  Status remove();

private:
  struct State;
  std::unique_ptr<State> state;
};

/// ANABRANCH_CACHE_HOME, or `anabranch` in XDG_CACHE_HOME or ~/.cache; empty
/// without a home.
ANABRANCH_API std::string cacheFolder();

/// ANABRANCH_CACHE_BYTES, else 10 GiB; an error where it is no number.
ANABRANCH_API Expected<uint64_t> cacheLimit();

/// The entries `<root>/<kind>/<hh>/<key>/`, least recently used first.
ANABRANCH_API std::vector<CacheEntryInfo> listCache(const std::string &root);

/// Removes entries, least recently used first, until at most `limit` bytes are
/// left, and the litter of dead writers. An entry that is locked stays.
ANABRANCH_API CachePruned pruneCache(const std::string &root, uint64_t limit);

/// What compiled code depends on beside its source: this CPU, and the build of
/// the compiler library beside this one, which is not loaded for it.
ANABRANCH_API std::string cpuIdentity();
ANABRANCH_API std::string compilerIdentity();

/// The hash of files in packages and in the cache, in hex. It guards against
/// damage, not against an author who searches for two texts of one hash.
ANABRANCH_API std::string hashBytes(const void *data, size_t size);

} // namespace anabranch

#endif // ANABRANCH_CACHE_H
