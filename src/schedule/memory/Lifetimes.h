//===- Lifetimes.h - when the bytes of a program are in use -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Time is a vector here: how many commands of each stream are certainly done. A
// memory may take the bytes of another one if every use of the other happens
// before every use of its own.

#ifndef ANABRANCH_SCHEDULE_MEMORY_LIFETIMES_H
#define ANABRANCH_SCHEDULE_MEMORY_LIFETIMES_H

#include "ir/Anabranch.h"
#include "llvm/ADT/MapVector.h"

namespace anabranch {
namespace schedule {

/// The uses of one memory (of `anabranch.buffer`) by the streams of a program.
struct Lifetime {
  /// For each stream, the last command that uses the memory; -1: none does.
  llvm::SmallVector<int, 4> last;
  /// For each stream, how many of its commands are done whenever a use begins.
  llvm::SmallVector<int, 4> reached;

  bool isUsed() const { return !last.empty(); }
  bool endsBefore(const Lifetime &other) const;
  bool overlaps(const Lifetime &other) const {
    return !endsBefore(other) && !other.endsBefore(*this);
  }
};

/// The lifetime of each memory, by its number. Members of a super kernel count
/// as commands one after the other: at run time a tile that overwrites bytes
/// waits for the tiles that read them. In a super kernel a use ends `spread`
/// members later than its command. Fails, with a diagnostic, if the streams
/// wait for each other forever.
mlir::FailureOr<llvm::MapVector<int64_t, Lifetime>>
lifetimesOf(ir::ProgramOp program, int spread = 0);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_MEMORY_LIFETIMES_H
