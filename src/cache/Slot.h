//===- Slot.h - one entry of the cache --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// An entry is a folder of plain files. Its index lists the other files with
// their sizes and hashes, carries a text of the caller's, and ends with a line
// that hashes the lines before it. Writers add and remove entries by renaming
// folders.

#ifndef ANABRANCH_CACHE_SLOT_H
#define ANABRANCH_CACHE_SLOT_H

#include "anabranch/Cache.h"
#include "cache/Contents.h"
#include "cache/Lock.h"
#include "package/files/Trust.h"

#include <optional>
#include <string>
#include <vector>

namespace anabranch::cache {

/// The place of an entry, whether it exists or not. Any thread. Several
/// processes may use it at once if each holds the lock that a function asks
/// for.
class Slot {
public:
  /// `trust` names a level (package/files/Trust.h). If the name is unknown,
  /// each function of the slot returns that error. `contents` is the folder of
  /// the files that entries share; empty where they share none.
  Slot(std::string folder, std::string index, const std::string &trust = "",
       std::string contents = "");

  const std::string &folder() const { return path; }

  /// Returns a Lock that holds nothing if `seconds` have passed, or if a reader
  /// asks for it where nothing can be written.
  Expected<Lock> lock(Lock::Kind kind, double seconds) const;

  /// Hashes the entry's files, compares the hashes with the index, and returns
  /// the entry's text; nullopt if there is no entry. BadPackage: the entry
  /// differs from the published one, or is not safe. Marks the entry as used
  /// now.
  Expected<std::optional<std::string>> read() const;

  /// Publishes an entry, in place of the one that exists, if any. The lock must
  /// be exclusive.
  Status publish(const Lock &lock, const std::vector<CacheFile> &files,
                 const std::string &text) const;

  /// Removes the entry; no error if there is none. The lock must be exclusive.
  Status remove(const Lock &lock) const;

  /// Removes what dead writers left beside this slot.
  void removeLitter(const Lock &lock) const;

private:
  std::string lockPath() const { return parent + "/." + name + ".lock"; }
  std::string litterPrefix() const { return ".tmp-" + name + "-"; }
  std::string freshPath() const;

  std::string path, parent, name, index, contents;
  std::string wrongTrust; ///< the error of an unknown level; else empty
  package::Trust trust = package::Trust::User;
};

/// Makes the folder and those above it. New ones get the mode of this level.
Status makeFolders(const std::string &path, package::Trust trust);

} // namespace anabranch::cache

#endif // ANABRANCH_CACHE_SLOT_H
