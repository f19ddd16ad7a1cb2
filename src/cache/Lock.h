//===- Lock.h - who reads and who writes an entry ---------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CACHE_LOCK_H
#define ANABRANCH_CACHE_LOCK_H

#include "anabranch/Status.h"
#include "package/files/Files.h"

#include <string>

namespace anabranch::cache {

/// A lock between processes, and between two Locks of one process, that ends
/// with the object or with its process. Any thread.
class Lock {
public:
  enum class Kind { Shared, Exclusive };

  /// Nothing is held.
  Lock() = default;

  /// Waits for at most `seconds`; what comes back then holds nothing. The file
  /// is made where it is missing and may be removed by who holds it
  /// exclusively; a new one is for `readers`. An error where the folder takes
  /// no file, or no locks.
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
