//===- Store.h - all entries below one root ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_CACHE_STORE_H
#define ANABRANCH_CACHE_STORE_H

#include "cache/Slot.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace anabranch::cache {

/// The entries of `<root>/<kind>/<hh>/<key>/`. Any thread, any process.
class Store {
public:
  explicit Store(std::string root) : root(std::move(root)) {}

  /// `key` is a hash in hex.
  Slot slot(const std::string &kind, const std::string &key) const;

  /// Least recently used first. Leaves out entries that cannot be read.
  std::vector<CacheEntryInfo> list() const;

  /// Removes what dead writers left, and entries, least recently used first,
  /// until at most `limit` bytes are left: a file that entries share counts
  /// once. A locked entry stays.
  CachePruned prune(uint64_t limit) const;

  /// The name of every entry's index.
  static constexpr const char *index = "entry.json";

private:
  std::string root;
};

/// Where the entries of a root keep the files that they share, if `folder` is
/// one that `Store::slot` gives; else empty.
std::string contentsOf(const std::string &folder);

/// The limit in bytes: ANABRANCH_CACHE_BYTES, else 10 GiB. An error if the
/// variable is no number.
Expected<uint64_t> defaultLimit();

} // namespace anabranch::cache

#endif // ANABRANCH_CACHE_STORE_H
