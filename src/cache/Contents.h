//===- Contents.h - large files that entries share --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The programs of one model hold the same weights. Their entries have hard
// links to one file, and so has a folder beside the entries, where the file is
// called by its hash and its size. Pruning the cache removes from that folder
// the files that no entry links to any more.

#ifndef ANABRANCH_CACHE_CONTENTS_H
#define ANABRANCH_CACHE_CONTENTS_H

#include "cache/Index.h"
#include "package/files/Files.h"

#include <cstdint>
#include <string>

namespace anabranch::cache {

/// The shared files of one root. Any thread, any process, without a lock. If
/// the folder's file system has no links, or the folder cannot be written,
/// nothing is shared.
class Contents {
public:
  /// Shares nothing if `folder` is empty.
  Contents(std::string folder, package::Trust trust)
      : path(std::move(folder)), trust(trust) {}

  /// Whether a file of this size is shared.
  bool takes(uint64_t bytes) const { return !path.empty() && bytes >= least; }

  /// Makes a link `row.name` in `folder` to a kept file of the bytes of
  /// `source`, which have the hash and the size of `row`. Returns false if
  /// there is none; `folder` then has no such name. Compares every byte.
  bool link(const package::Descriptor &source, const IndexFile &row,
            const package::Descriptor &folder) const;

  /// Keeps a link to the file `row.name` of `folder`, in place of one that has
  /// other bytes.
  void keep(const package::Descriptor &folder, const IndexFile &row) const;

  /// Removes the files of such a folder that no entry links to.
  static void removeUnused(const std::string &path);

private:
  /// Smaller files are copied: they take little room.
  static constexpr uint64_t least = uint64_t(1) << 20;

  std::string path;
  package::Trust trust;
};

} // namespace anabranch::cache

#endif // ANABRANCH_CACHE_CONTENTS_H
