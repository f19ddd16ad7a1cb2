//===- Pointwise.cpp - the pointwise operators
//------------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "import/OpTable.h"

namespace anabranch {
namespace importer {

void registerPointwise(OpTable &table) { table.family("pointwise"); }

} // namespace importer
} // namespace anabranch
