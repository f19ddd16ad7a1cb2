//===- Dependencies.h - which commands must come before others --*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_SCHEDULE_PROGRAM_DEPENDENCIES_H
#define ANABRANCH_SCHEDULE_PROGRAM_DEPENDENCIES_H

#include "ir/Anabranch.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

namespace anabranch {
namespace schedule {

/// The number of the bytes behind a buffer.
int64_t memoryOf(mlir::Value buffer);

/// Follows a list of commands, numbered as they come, and says of each which
/// earlier ones it depends on through memory, or because both are calls that
/// keep their order.
class Dependencies {
public:
  struct Earlier {
    /// A reader needs the last writer; a writer needs everybody before it; an
    /// ordered call needs the one before it.
    llvm::SetVector<int> needed;
    /// Commands that read an input which this one overwrites. The input is the
    /// caller's, so the user says the order.
    llvm::SetVector<int> overwritten;
  };

  Earlier add(mlir::Operation *command);

private:
  /// The commands that have used the bytes so far.
  struct Uses {
    int writer = -1;
    llvm::SmallVector<int> readers; ///< since then
  };

  void read(mlir::Value buffer, Earlier &earlier);
  void write(mlir::Value buffer, Earlier &earlier);

  llvm::DenseMap<int64_t, Uses> uses; ///< by memory
  int number = -1;                    ///< of the newest command
  int lastOrdered = -1;               ///< call
};

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_PROGRAM_DEPENDENCIES_H
