//===- MemoryRoom.h - whether a limit leaves room for memory ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_MACHINE_HOST_MEMORYROOM_H
#define ANABRANCH_MACHINE_HOST_MEMORYROOM_H

#include "anabranch/Status.h"

#include <cstdint>
#include <string>

namespace anabranch::machine {

/// The bytes in MiB, rounded up, as text.
std::string inMiB(int64_t bytes);

/// Fails with OutOfMemory, and the sizes, if the container's memory limit does
/// not allow so many more bytes: the kernel would kill the process when it
/// writes them. Small amounts are not checked. `what` says what the bytes are
/// for. `root` is put before the paths read.
Status checkMemoryRoom(int64_t bytes, const std::string &what,
                       const std::string &root = "");

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_HOST_MEMORYROOM_H
