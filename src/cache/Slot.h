//===- Slot.h - one entry of the cache --------------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// An entry is a folder of plain files. Its index lists the other files with
// their sizes and hashes, carries a text of the caller's, and ends with a line
// that hashes the lines before it. Entries come and go by rename.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CACHE_SLOT_H
#define ANABRANCH_CACHE_SLOT_H

#include "anabranch/Cache.h"
#include "cache/Lock.h"
#include "package/files/Trust.h"

#include <optional>
#include <string>
#include <vector>

namespace anabranch::cache {

/// Where an entry is or will be. Any thread; several processes at once when
/// each holds the lock that a function asks for.
class Slot {
public:
  /// `trust` names a level (package/files/Trust.h); a wrong name is an error of
  /// what is done with the slot.
  Slot(std::string folder, std::string index, const std::string &trust = "");

  const std::string &folder() const { return path; }

  /// Where nothing can be written, readers go without: what comes back then
  /// holds nothing, as after `seconds` have passed.
  Expected<Lock> lock(Lock::Kind kind, double seconds) const;

  /// The text of the entry, after all that it lists was hashed and compared;
  /// nullopt when there is no entry. BadPackage says that the entry is not what
  /// was published, or not safe. Marks the entry as used now.
  Expected<std::optional<std::string>> read() const;

  /// Puts a new entry in place of the one that is there, if any. The lock must
  /// be exclusive.
  Status publish(const Lock &lock, const std::vector<CacheFile> &files,
                 const std::string &text) const;

  /// What is not there is no error. The lock must be exclusive.
  Status remove(const Lock &lock) const;

  /// Removes what writers that died left beside this slot.
  void removeLitter(const Lock &lock) const;

private:
  std::string lockPath() const { return parent + "/." + name + ".lock"; }
  std::string litterPrefix() const { return ".tmp-" + name + "-"; }
  std::string freshPath() const;

  std::string path, parent, name, index;
  std::string wrongTrust; ///< why there is no such level; empty: there is
  package::Trust trust = package::Trust::User;
};

/// The folder and those above it; what is new is for those of this level.
Status makeFolders(const std::string &path, package::Trust trust);

} // namespace anabranch::cache

#endif // ANABRANCH_CACHE_SLOT_H
