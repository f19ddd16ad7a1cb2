//===- Comparison.cpp - the comparison operators
//------------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "import/OpTable.h"

namespace anabranch {
namespace importer {

void registerComparison(OpTable &table) { table.family("comparison"); }

} // namespace importer
} // namespace anabranch
