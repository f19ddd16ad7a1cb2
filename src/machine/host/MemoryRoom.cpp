//===- MemoryRoom.cpp - whether a limit leaves room for memory ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "machine/host/MemoryRoom.h"

#include "machine/host/ControlGroups.h"

namespace anabranch::machine {

std::string inMiB(int64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

Status checkMemoryRoom(int64_t bytes, const std::string &what,
                       const std::string &root) {
  constexpr int64_t worthALook = int64_t(16) << 20;
  if (bytes < worthALook)
    return {};
  std::optional<MemoryRoom> room = ControlGroups(root).memoryRoom();
  if (!room || bytes <= room->bytes)
    return {};
  return Status(StatusCode::OutOfMemory,
                what + " need " + inMiB(bytes) + ", and " + inMiB(room->bytes) +
                    " of the " + inMiB(room->limit.bytes) + " that " +
                    room->limit.file + " allows are free");
}

} // namespace anabranch::machine
