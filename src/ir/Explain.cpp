//===- Explain.cpp - why something was not done ---------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "ir/Explain.h"

#include "ir/Anabranch.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;

void anabranch::ir::setExplaining(MLIRContext *context, bool wanted) {
  context->getOrLoadDialect<AnabranchDialect>()->setExplaining(wanted);
}

bool anabranch::ir::isExplaining(MLIRContext *context) {
  auto *dialect = context->getLoadedDialect<AnabranchDialect>();
  return dialect && dialect->isExplaining();
}

void anabranch::ir::explainRefusal(Location location, StringRef what,
                                   const Twine &reason) {
  if (isExplaining(location.getContext()))
    emitRemark(location) << "not " << what << ": " << reason;
}

FileLineColLoc anabranch::ir::fileLocationOf(Location location) {
  FileLineColLoc found;
  location->walk([&](Location inner) {
    found = dyn_cast<FileLineColLoc>(inner);
    return found ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found;
}

std::string anabranch::ir::describeLocation(Location location) {
  if (FileLineColLoc file = fileLocationOf(location))
    return (file.getFilename().getValue() + ":" + Twine(file.getLine())).str();
  if (auto name = dyn_cast<NameLoc>(location))
    return name.getName().str();
  return "";
}
