//===- SharePersistent.h - prepared weights of several programs -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_SERIALIZE_SHAREPERSISTENT_H
#define ANABRANCH_SCHEDULE_SERIALIZE_SHAREPERSISTENT_H

#include "package/program_generated.h"

namespace anabranch {
namespace schedule {

/// Gives a program and its variants one persistent memory. Equal commands that
/// read equal constants write one copy. `initialize` of a variant keeps only
/// the commands that no earlier program has.
void sharePersistent(package::ProgramT &program);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_SERIALIZE_SHAREPERSISTENT_H
