//===- CacheFolder.h - where a user's processes keep things -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_MACHINE_LIMITS_CACHEFOLDER_H
#define ANABRANCH_MACHINE_LIMITS_CACHEFOLDER_H

#include <string>

namespace anabranch::machine {

/// The folder for everything that is kept between processes:
/// ANABRANCH_CACHE_HOME, else `anabranch` in XDG_CACHE_HOME or in ~/.cache.
/// Empty without a home.
std::string cacheFolder();

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_LIMITS_CACHEFOLDER_H
