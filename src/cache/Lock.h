//===- Lock.h - who reads and who writes an entry ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_CACHE_LOCK_H
#define ANABRANCH_CACHE_LOCK_H

#include "anabranch/Status.h"
#include "package/files/Files.h"

#include <string>

namespace anabranch::cache {

/// A lock between processes, and between two Locks of one process. It ends with
/// this object or with the process. Any thread.
class Lock {
public:
  enum class Kind { Shared, Exclusive };

  /// Holds nothing.
  Lock() = default;

  /// Waits at most `seconds`; a Lock that did not get it holds nothing. The
  /// function creates a missing file for `readers`. The holder of an exclusive
  /// lock may remove the file. An error if the folder takes no file, or no
  /// locks.
  static Expected<Lock> take(const std::string &path, Kind kind, double seconds,
                             package::Trust readers = package::Trust::User);

  bool held() const { return file.valid(); }
  bool exclusive() const { return held() && kind == Kind::Exclusive; }

private:
  Lock(package::Descriptor file, Kind kind)
      : file(std::move(file)), kind(kind) {}

  package::Descriptor file;
  Kind kind = Kind::Shared;
};

} // namespace anabranch::cache

#endif // ANABRANCH_CACHE_LOCK_H
