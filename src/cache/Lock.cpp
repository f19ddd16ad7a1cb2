//===- Lock.cpp - who reads and who writes an entry -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "cache/Lock.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>

namespace anabranch::cache {

namespace {

using package::Descriptor;
using Clock = std::chrono::steady_clock;

/// Opens or creates the lock's file. In a folder that takes no new file, a
/// reader opens a lock that exists.
Expected<Descriptor> openLock(const std::string &path, Lock::Kind kind,
                              package::Trust readers) {
  int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  Descriptor file(::open(path.c_str(), flags | O_RDWR | O_CREAT, 0600));
  if (file.valid() && readers != package::Trust::User)
    // This call fails on a lock of another user, who has already set its mode.
    (void)::fchmod(file.get(), package::fileMode(readers));
  if (!file.valid() && kind == Lock::Kind::Shared &&
      (errno == EROFS || errno == EACCES))
    file = Descriptor(::open(path.c_str(), flags | O_RDONLY));
  if (!file.valid())
    return package::ioError("cannot open the lock " + path);
  return file;
}

/// Whether `path` still names the locked file: another process may have removed
/// it before this one got the lock.
bool isStillThere(const Descriptor &file, const std::string &path) {
  struct stat mine, current;
  return ::fstat(file.get(), &mine) == 0 &&
         ::stat(path.c_str(), &current) == 0 && mine.st_dev == current.st_dev &&
         mine.st_ino == current.st_ino;
}

} // namespace

Expected<Lock> Lock::take(const std::string &path, Kind kind, double seconds,
                          package::Trust readers) {
  const int operation = kind == Kind::Shared ? LOCK_SH : LOCK_EX;
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(seconds));
  std::chrono::milliseconds pause(1);
  for (;;) {
    Expected<Descriptor> file = openLock(path, kind, readers);
    if (!file)
      return file.takeStatus();
    while (::flock(file->get(), operation | LOCK_NB) != 0) {
      if (errno == EINTR)
        continue;
      if (errno != EWOULDBLOCK)
        return package::ioError("cannot lock " + path);
      if (Clock::now() >= deadline)
        return Lock();
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::milliseconds(50));
    }
    if (isStillThere(*file, path))
      return Lock(std::move(*file), kind);
  }
}

} // namespace anabranch::cache
