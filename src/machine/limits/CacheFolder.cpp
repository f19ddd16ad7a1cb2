//===- CacheFolder.cpp - where a user's processes keep things -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/limits/CacheFolder.h"

#include <cstdlib>

namespace anabranch::machine {

std::string cacheFolder() {
  if (const char *own = std::getenv("ANABRANCH_CACHE_HOME"); own && *own)
    return own;
  if (const char *cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return std::string(cache) + "/anabranch";
  if (const char *home = std::getenv("HOME"); home && *home)
    return std::string(home) + "/.cache/anabranch";
  return {};
}

} // namespace anabranch::machine
