//===- ScheduleOps.cpp - dispatches, kernels, the program -----------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "ir/Anabranch.h"

using namespace mlir;
using namespace anabranch::ir;

LogicalResult DispatchOp::verify() {
  Block &block = getBody().front();
  if (block.getNumArguments() != getInputs().size() + getIndices().size())
    return emitOpError("region must take every input and index");
  if (block.getTerminator()->getOperandTypes() != getResultTypes())
    return emitOpError("region must yield the results' types");
  return success();
}
