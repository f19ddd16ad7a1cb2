//===- Reduction.cpp - the reduction operators
//------------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "import/OpTable.h"

namespace anabranch {
namespace importer {

void registerReduction(OpTable &table) { table.family("reduction"); }

} // namespace importer
} // namespace anabranch
