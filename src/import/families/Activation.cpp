//===- Activation.cpp - the activation operators
//------------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "import/OpTable.h"

namespace anabranch {
namespace importer {

void registerActivation(OpTable &table) { table.family("activation"); }

} // namespace importer
} // namespace anabranch
