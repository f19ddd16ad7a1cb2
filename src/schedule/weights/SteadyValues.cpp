//===- SteadyValues.cpp - what depends on weights only --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/weights/SteadyValues.h"

#include "analysis/IterationSpace.h"
#include "ir/Anabranch.h"
#include "ir/SteadyInput.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

bool SteadyValues::contains(Value value) {
  if (isa<BlockArgument>(value))
    return ir::isSteady(value) &&
           cast<RankedTensorType>(value.getType()).hasStaticShape();
  auto found = known.find(value);
  if (found != known.end())
    return found->second;
  Operation *op = value.getDefiningOp();
  auto type = dyn_cast<RankedTensorType>(value.getType());
  bool result = type && type.hasStaticShape() && !isa<ir::AtenOp>(op) &&
                llvm::all_of(analysis::allOperands(op), [&](Value input) {
                  if (isa<RankedTensorType>(input.getType()))
                    return contains(input);
                  Operation *scalar = input.getDefiningOp();
                  return scalar && scalar->hasTrait<OpTrait::ConstantLike>();
                });
  return known[value] = result;
}

} // namespace schedule
} // namespace anabranch
