//===- Identity.h - which build of a compiler this is -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_CACHE_IDENTITY_H
#define ANABRANCH_CACHE_IDENTITY_H

#include <string>

namespace anabranch::cache {

/// The build id of an ELF file in hex, without loading it; of a file that has
/// none, its size and time; empty where there is no file.
std::string buildIdentity(const std::string &path);

} // namespace anabranch::cache

#endif // ANABRANCH_CACHE_IDENTITY_H
