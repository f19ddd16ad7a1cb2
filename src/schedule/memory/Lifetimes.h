//===- Lifetimes.h - when the bytes of a program are in use -----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Time is a vector here: how many commands of each stream are certainly done.
// One memory may take the bytes of another when every use of the other happens
// before every use of it.
//
//===----------------------------------------------------------------------===//

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

/// By memory number. Members of a super kernel are commands one after the
/// other: at run time a tile that overwrites bytes waits for those that read
/// them. Inside a super kernel uses last until `spread` members later. Fails,
/// with a diagnostic, if the streams of the program wait for each other
/// forever.
mlir::FailureOr<llvm::MapVector<int64_t, Lifetime>>
lifetimesOf(ir::ProgramOp program, int spread = 0);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_MEMORY_LIFETIMES_H
