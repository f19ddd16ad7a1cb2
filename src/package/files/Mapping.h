//===- Mapping.h - a file of a package in memory ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PACKAGE_FILES_MAPPING_H
#define ANABRANCH_PACKAGE_FILES_MAPPING_H

#include "anabranch/Status.h"

#include <cstdint>
#include <string>

namespace anabranch::package {

/// A file, mapped read-only and shared with all processes that map it. Moving
/// the object keeps the address.
class Mapping {
public:
  Mapping() = default;
  Mapping(Mapping &&other) noexcept;
  Mapping &operator=(Mapping &&other) noexcept;
  ~Mapping();

  /// Maps the file of the descriptor, which the caller still owns. `name`
  /// is for errors. An empty file has no address.
  static Expected<Mapping> map(int descriptor, const std::string &name);

  const char *data() const { return static_cast<const char *>(base); }
  uint64_t size() const { return bytes; }

  /// Takes the file's pages out of this process. A later read gets them from
  /// the page cache. Any thread.
  void releasePages() const;

private:
  void *base = nullptr;
  uint64_t bytes = 0;
};

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_FILES_MAPPING_H
