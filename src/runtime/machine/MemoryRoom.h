//===- MemoryRoom.h - whether a limit leaves room for memory ----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_MACHINE_MEMORYROOM_H
#define ANABRANCH_RUNTIME_MACHINE_MEMORYROOM_H

#include "anabranch/Status.h"

#include <cstdint>
#include <string>

namespace anabranch::runtime {

/// For people, rounded up.
std::string inMiB(int64_t bytes);

/// OutOfMemory with the sizes if the container's memory limit has no room for
/// so many more bytes: the kernel would end the process where it writes them.
/// Small amounts are not looked at. `what` says what they are for; `root`
/// stands before the paths that are read.
Status checkMemoryRoom(int64_t bytes, const std::string &what,
                       const std::string &root = "");

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_MACHINE_MEMORYROOM_H
