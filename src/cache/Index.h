//===- Index.h - what an entry of the cache lists ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_CACHE_INDEX_H
#define ANABRANCH_CACHE_INDEX_H

#include "anabranch/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace anabranch::cache {

struct IndexFile {
  std::string name;
  uint64_t bytes = 0;
  std::string hash;
};

struct Index {
  std::vector<IndexFile> files;
  std::string text; ///< the caller's
};

/// JSON, then a line with the hash of all before it.
std::string writeIndex(const Index &index);
Expected<Index> readIndex(std::string_view bytes);

} // namespace anabranch::cache

#endif // ANABRANCH_CACHE_INDEX_H
