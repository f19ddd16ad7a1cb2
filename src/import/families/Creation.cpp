//===- Creation.cpp - the creation operators ------------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "import/OpTable.h"

namespace anabranch {
namespace importer {

void registerCreation(OpTable &table) { table.family("creation"); }

} // namespace importer
} // namespace anabranch
