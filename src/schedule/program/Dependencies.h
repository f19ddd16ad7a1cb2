//===- Dependencies.h - which commands must come before others --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_PROGRAM_DEPENDENCIES_H
#define ANABRANCH_SCHEDULE_PROGRAM_DEPENDENCIES_H

#include "ir/Anabranch.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

namespace anabranch {
namespace schedule {

/// The number of the memory that a buffer is a view of.
int64_t memoryOf(mlir::Value buffer);

/// Numbers commands as they come. For each it finds the earlier ones that it
/// depends on: through memory, or because both are calls that keep their order.
class Dependencies {
public:
  struct Earlier {
    /// Commands that must be done first. A reader needs the last writer. A
    /// writer needs the last writer and the readers since. An ordered call
    /// needs the ordered call before it.
    llvm::SetVector<int> needed;
    /// Readers of an input that this command overwrites; `needed` lacks them.
    /// The input is the caller's memory, so the user must order them.
    llvm::SetVector<int> overwritten;
  };

  Earlier add(mlir::Operation *command);

private:
  /// The commands that used a memory so far.
  struct Uses {
    int writer = -1;
    llvm::SmallVector<int> readers; ///< since the writer
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
